"""The journal of an input partition: which answers its models have taken, and where in the stream.

Two topics have no common order. The worker takes an answer when it finds one, between two events; that moment is
chance, and the models depend on it. So it is written down: an answer has a number n (0, 1, 2 ... in the life of the
partition's models) and the position p at which it was taken, after all events below p and before the event at p.
Numbers and positions grow together, so events and answers of a partition have one order, and the model of a key is a
function of the key's events and answers in it. partition.py makes its argument over that order.

A journal record is written to the state topic in every transaction that has dealt with an answer. It holds

- the answers that some snapshot does not cover yet, with all that is needed to take them again: a replay never asks
  the feedback topic, which may have forgotten them;
- for each partition of the feedback topic, the offset below which all answers to this input partition are dealt with;
- its own version, 1, 2, 3 ..., which is committed with the input offset, in the metadata that Kafka keeps beside it.

The last is needed since a reader may see a committed offset before the state records of the same transaction. Events
that were learned meanwhile are in the input topic, but answers are nowhere else. A reader who finds an older journal
than the offset tells of waits for all that was written, and raises if it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from svead_kafka.events import Names

_MOST_ANSWERS, _MOST_BYTES = 200, 400_000  # in a record; with more, the models are saved and the list begins anew


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that was taken: its number, the position before which that was, the model's key, and the event."""

    number: int
    position: int
    key: bytes | None
    is_anomaly: bool
    names: Names
    values: Sequence[float]
    text: bytes = field(default=b"", repr=False, compare=False)  # as it stands in the journal


class Mark(NamedTuple):
    """What is committed beside an input offset.

    The life of the models, the version of their journal, and how many partitions the topic had when they began.
    """

    life: str
    version: int
    partitions: int = 0

    def write(self) -> str:
        """The text for Kafka to keep."""
        return orjson.dumps(self._asdict()).decode()

    @classmethod
    def read(cls, metadata: str | None) -> Mark | None:
        """What the metadata of an offset claims: nothing, if it is empty or not ours."""
        try:
            found = orjson.loads(metadata or "")
            life, version, partitions = found["life"], found["version"], found.get("partitions", 0)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            return None
        right = type(life) is str and type(version) is int and type(partitions) is int
        return cls(life, version, partitions) if right else None


class Journal:
    """What is known of the answers to an input partition.

    Parameters
    ----------
    life
        Of the models that have taken them.
    version
        How often the journal of this life was written.
    count
        Answers taken in this life: the number of the next one.
    position
        The position at which the last of them was taken.
    heard
        By feedback topic and partition, the offset below which all is dealt with.
    answers
        Those that some snapshot does not cover.
    """

    def __init__(
        self,
        life: str,
        version: int = 0,
        count: int = 0,
        position: int = 0,
        heard: dict[str, dict[int, int]] | None = None,
        answers: Iterable[Answer] = (),
    ) -> None:
        self.life = life
        self.version = version
        self.count = count
        self.position = position
        self.answers = list(answers)
        self.is_due = False  # an answer was dealt with: it must be written now
        self.is_stale = False  # there is less to tell than was written
        self._heard = heard or {}
        self._size = sum(len(answer.text) for answer in self.answers)
        self._latest: list[tuple[int, int, int, int]] = []

    @property
    def is_long(self) -> bool:
        """Whether the models should be saved, so that the answers need not be kept."""
        return len(self.answers) > _MOST_ANSWERS or self._size > _MOST_BYTES

    def of_life(self, life: str) -> Journal:
        """This journal, if it is of that life; else an empty one that goes on reading where this one is."""
        if life == self.life:
            return self
        return Journal(life, heard={topic: dict(offsets) for topic, offsets in self._heard.items()})

    # what was heard

    @property
    def is_silent(self) -> bool:
        """Whether nothing was ever heard of answers."""
        return not self._heard

    def heard(self, topic: str, partition: int) -> int:
        """The offset of the feedback topic below which all is dealt with."""
        return self._heard.get(topic, {}).get(partition, 0)

    def has_heard(self, topic: str, partition: int, offset: int) -> None:
        """All below this offset is dealt with, or for others. To say so can wait until there is more to write."""
        if offset > self.heard(topic, partition):
            self._heard.setdefault(topic, {})[partition] = offset
            self.is_stale = True

    # what was taken

    def take(
        self,
        position: int,
        key: bytes | None,
        is_anomaly: bool,
        names: Names,
        values: Sequence[float],
        place: tuple[int, int],
    ) -> None:
        """Enter an answer; `place` is its partition and offset in the feedback topic."""
        number = self.count
        text = orjson.dumps([number, position, None if key is None else key.hex(), is_anomaly, names, values])
        self.answers.append(Answer(number, position, key, is_anomaly, names, values, text))
        self._latest.append((number, position, *place))
        self._size += len(text)
        self.count += 1
        self.position = position
        self.is_due = True

    def keep(self, wanted: Callable[[Answer], bool]) -> None:
        """Leave out the answers that snapshots cover."""
        left = [answer for answer in self.answers if wanted(answer)]
        if len(left) < len(self.answers):
            self.answers, self.is_stale = left, True
            self._size = sum(len(answer.text) for answer in left)

    # to bytes and back

    def write(self) -> bytes:
        """The next version."""
        self.version += 1
        told: dict[str, Any] = {
            "life": self.life,
            "version": self.version,
            "count": self.count,
            "position": self.position,
            "heard": {
                topic: {str(partition): offset for partition, offset in heard.items()}
                for topic, heard in self._heard.items()
            },
            "answers": [orjson.Fragment(answer.text) for answer in self.answers],
            # Number, position, and where in the feedback topic: for people who want to know when an answer was taken.
            "latest": self._latest,
        }
        self._latest = []
        self.is_due = self.is_stale = False
        return orjson.dumps(told)

    @classmethod
    def read(cls, data: bytes) -> Journal:
        """The journal that was written."""
        told = orjson.loads(data)
        heard = {
            topic: {int(partition): offset for partition, offset in offsets.items()}
            for topic, offsets in told["heard"].items()
        }
        answers = [
            Answer(number, position, None if key is None else bytes.fromhex(key), is_anomaly, tuple(names), values,
                   orjson.dumps([number, position, key, is_anomaly, names, values]))
            for number, position, key, is_anomaly, names, values in told["answers"]
        ]  # fmt: skip
        return cls(told["life"], told["version"], told["count"], told["position"], heard, answers)
