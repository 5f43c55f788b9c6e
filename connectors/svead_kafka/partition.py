"""The models of one input partition, and what of them is saved.

Why a restore is exact
----------------------
Let c be the committed offset of the partition. The model of a key is a function of the key's good events below c, in
their order (models.py sees to it that batches don't matter). The clock of a model and its open incident are part of it,
and an event's time is read from its message alone (times.py), so what is told of incidents at an event is a function
of the key's events up to it, like the score. The state topic has, committed together with offsets:

- for a key, perhaps a snapshot that covers o: the model after all its events below o, and none from o on;
- the checkpoint P, with this invariant: *a key's events below P are all covered by its snapshot*.

A restore reads the events from P up to c and gives a key those at or above its own o. Events below P are covered by
the invariant, events in [P, o) by the snapshot, and the rest are learned now: each exactly once, in order. No snapshot
has o > c, as it was committed with an offset c' >= o and committed offsets only grow. A reader who misses the newest
snapshots (they may become visible a moment after the offsets) has older ones, for which the same holds with an older P.
Only the first checkpoint must not be missed: a reader who finds offsets without one waits for all that was written.

With answers the argument is the same. The model of a key is a function of its events and answers in their one order
(journal.py). A snapshot also tells the number n of answers that the partition had when it was made: it has all of its
key's answers below n, taken at or before o, and none from n on, taken at or after o. The journal lists at least the
answers that are not covered so, and a restore gives a key those from its own n on, each before the event at its
position. A model that an answer has changed counts as having learned at that position, so P is never above it. Journals
must not be missed, so the version of the newest is committed with c.

The invariant is kept because P is the smallest offset that some model has learned but not saved, or the position of
the partition if there is none. It is written only in a transaction that also writes the snapshots that let it grow.

Models move out of memory (least recently used first) only at the end of a transaction, which saves them if they have
learned anything since their last snapshot; so what is in the state topic is all there is to know of them, and reading
one back gives the same model. Which models are in memory changes nothing but speed.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any
from uuid import uuid4

from kafka import TopicPartition

from svead_kafka.events import Bad, Event, Names
from svead_kafka.journal import Answer, Journal, Mark
from svead_kafka.models import Maker, Model
from svead_kafka.state_topic import Found, Record, Saved, checkpoint_record, journal_record, model_records
from svead_stream import __version__
from svead_stream.judging import ConformalFilter
from svead_stream.record import Verdict

Key = bytes | None


class Partition:
    """The models of one input partition.

    Parameters
    ----------
    source
        The input partition.
    maker
        Makes, dumps and loads models.
    found
        What the state topic knows of the partition.
    load
        Reads the bytes of a saved model.
    """

    def __init__(
        self, source: TopicPartition, maker: Maker, found: Found, load: Callable[[TopicPartition, Saved], bytes]
    ) -> None:
        assert found.checkpoint is not None, "a partition without a checkpoint needs its first one before"
        self.source = source
        self.position: int = found.checkpoint["offset"]
        self.committed_position: int | None = None  # until the first commit of this owner
        self.saved_at = time.time()
        self._odd: Counter[str] = Counter()  # what was missing since that was last asked for
        self._checkpoint = found.checkpoint
        self._maker = maker
        self._load = load
        self._saved = found.models
        self._models: OrderedDict[Key, Model] = OrderedDict()  # least recently used first
        self._unsaved: OrderedDict[Key, int] = OrderedDict()  # first offset learned but not saved, about in order
        self._pending: list[tuple[Key, list[Any], int]] = []  # snapshots in the open transaction
        self._leaving: list[Key] = []
        self.journal = (found.journal or Journal("")).of_life(found.checkpoint["life"])
        self.journal.keep(self._is_not_covered)
        self._to_replay = deque(self.journal.answers)

    def __len__(self) -> int:
        return len(self._models)

    @property
    def topic_id(self) -> str | None:
        """The id of the topic when the models began, where brokers have such ids."""
        return self._checkpoint.get("topic_id")

    @property
    def unsaved(self) -> bool:
        """Whether some model has learned what is not saved."""
        return bool(self._unsaved)

    # learning

    def take(self, events: Sequence[Event], position: int) -> tuple[list[tuple[Event, Verdict]], list[Bad]]:
        """Score and learn events of the partition up to a position; events that a model refuses come back as bad."""
        scored: list[tuple[Event, Verdict]] = []
        bad: list[Bad] = []
        groups = self._by_key(events)
        for key, own in groups.items():
            own = self._not_yet_learned(key, own)
            if not own:
                continue
            model = self._model(key)
            self._unsaved.setdefault(key, own[0].record.offset)
            before = model.odd
            verdicts = model.take(own)
            self._odd += model.odd - before
            for event, verdict in zip(own, verdicts, strict=True):
                if isinstance(verdict, str):
                    bad.append(Bad(event.record, verdict))
                else:
                    scored.append((event, verdict))
        if len(groups) > 1:  # back in the order of the partition
            scored.sort(key=lambda one: one[0].record.offset)
        self.position = position
        return scored, bad

    def replay(self, events: Sequence[Event], position: int) -> None:
        """Learn events up to a position again, and the answers that were taken on the way."""
        done = 0
        while self._to_replay and self._to_replay[0].position <= position:
            answer = self._to_replay.popleft()
            split = bisect_left(events, answer.position, lo=done, key=_offset)
            self.take(events[done:split], max(self.position, answer.position))
            self._learn(answer.key, answer.is_anomaly, answer.names, answer.values)
            done = split
        self.take(events[done:], position)

    def answer(
        self, key: Key, is_anomaly: bool, names: Names, values: Sequence[float], place: tuple[int, int]
    ) -> str | None:
        """Take an answer, before the event at the position; returns why it cannot be taken, if so.

        `place` says where in the feedback topic it is. The answer is in the journal of the next transaction, which
        must follow.
        """
        if key not in self._models and key not in self._saved:  # one that has learned nothing would not change
            return f"there is no model of its {self._maker.options.model_per}"
        refused = self._learn(key, is_anomaly, names, values)
        if refused is None:
            self.journal.take(self.position, key, is_anomaly, names, values, place)
        return refused

    def _learn(self, key: Key, is_anomaly: bool, names: Names, values: Sequence[float]) -> str | None:
        refused = self._model(key).answer(names, values, is_anomaly, self._maker.options.teach_false_alarms)
        if refused is None:
            self._unsaved.setdefault(key, self.position)
        return refused

    def _is_not_covered(self, answer: Answer) -> bool:
        saved = self._saved.get(answer.key)
        return saved is None or answer.number >= saved.answers

    def _by_key(self, events: Sequence[Event]) -> dict[Key, list[Event]]:
        if self._maker.options.model_per == "partition":
            return {None: list(events)}
        groups: dict[Key, list[Event]] = {}
        for event in events:
            groups.setdefault(event.record.key, []).append(event)
        return groups

    def _not_yet_learned(self, key: Key, events: list[Event]) -> list[Event]:
        saved = self._saved.get(key)
        if saved is None or not events or events[0].record.offset >= saved.covers:
            return events
        return [event for event in events if event.record.offset >= saved.covers]  # a replay, see above

    def _model(self, key: Key) -> Model:
        model = self._models.get(key)
        if model is None:
            saved = self._saved.get(key)
            if saved is None:
                model = self._maker.new(self.source.topic, self.source.partition, key)
            else:
                model = self._maker.load(self._load(self.source, saved))
            self._models[key] = model
        self._models.move_to_end(key)
        return model

    def judge(self, key: Key) -> ConformalFilter | None:
        """The judge of a key, if its model is in memory."""
        model = self._models.get(key)
        return None if model is None else model.judge

    def odd_since_last(self) -> Counter[str]:
        """Missing values, and missing and backward times, met since the last call."""
        odd, self._odd = self._odd, Counter()
        return odd

    # saving

    @property
    def mark(self) -> str:
        """What is committed beside the position."""
        return Mark(self.journal.life, self.journal.version, self._checkpoint.get("partitions", 0)).write()

    def first_records(self) -> Iterator[Record]:
        """The first checkpoint, which fixes from which event on the models learn; and from where on to hear answers."""
        options = self._maker.options
        yield checkpoint_record(options.group, self.source, self._checkpoint)
        if options.feedback is not None or not self.journal.is_silent:
            yield journal_record(options.group, self.source, self.journal)

    def save(self, snapshot_every: int, max_models: int, everything: bool = False) -> Iterator[tuple[Any, Record]]:
        """Records to be written in the open transaction: models that are due or have to leave, checkpoint, journal.

        Each comes with a list, into which the caller puts the future that the producer returns. `committed` must
        follow when the transaction is committed; when it is not, the partition is to be thrown away.
        """
        group = self._maker.options.group
        self._leaving = list(self._models)[: max(0, len(self._models) - max_models)]
        limit = self.position + 1 if everything else self.position - snapshot_every
        due = [key for key, _ in takewhile(lambda one: one[1] <= limit, self._unsaved.items())]
        if self.journal.is_long:
            due += [answer.key for answer in self.journal.answers]
        for key in dict.fromkeys(due + [key for key in self._leaving if key in self._unsaved]):
            data = self._maker.dump(self._models[key])
            futures: list[Any] = []
            self._pending.append((key, futures, len(data)))
            for record in model_records(
                group, self.source, key, self._checkpoint["life"], self.position, data, self.journal.count
            ):
                yield futures, record
        saved_now = {key for key, _, _ in self._pending}
        self.journal.keep(lambda answer: answer.key not in saved_now)
        if due:
            left = [since for key, since in self._unsaved.items() if key not in saved_now]
            told = {"offset": min(left, default=self.position), "version": __version__}
            self._checkpoint = self._checkpoint | told
            yield [], checkpoint_record(group, self.source, self._checkpoint)
        if self.journal.is_due or (due and self.journal.is_stale):
            yield [], journal_record(group, self.source, self.journal)

    def committed(self) -> int | None:
        """The transaction with what `save` gave is committed; returns the size of the last model saved, if any."""
        size = None
        self.committed_position = self.position
        for key, futures, size in self._pending:  # noqa: B007  the last size is returned
            at = tuple(future.get(timeout=0).offset for future in futures)
            self._saved[key] = Saved(self.position, at, self.journal.count)
            self._unsaved.pop(key, None)
        if self._pending:
            self.saved_at = time.time()
        self._pending = []
        for key in self._leaving:
            del self._models[key]
        self._leaving = []
        return size


def _offset(event: Event) -> int:
    return int(event.record.offset)


def new_checkpoint(
    offset: int, fingerprint: dict[str, Any], topic_id: str | None = None, partitions: int = 0
) -> dict[str, Any]:
    """The checkpoint of a partition that has no models yet: they begin with the event at this offset.

    Of the topic it tells the id, and how many partitions it had.
    """
    about = {"topic_id": topic_id, "partitions": partitions, "version": __version__}
    return {"offset": offset, "life": uuid4().hex, "options": fingerprint, **about}
