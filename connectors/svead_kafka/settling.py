"""Where the models of an input partition go on: what is committed, what is saved and what the topic has, put together.

Mostly the three agree, and work goes on where it was. Here is what happens when somebody has changed one of them:

- Models were made with other options, or the state topic lacks what was committed: refused, unless new models are
  allowed. They would begin at the committed offset, so no event is lost by that, but all that was learned is.
- Offsets were moved back before what the models have learned: new models begin there.
- Offsets were moved on: the models learn what lies between, as it cannot be told from what was scored before. What was
  not scored will not be: that is a gap.
- Messages were deleted before they were scored, or lost by brokers and replaced by others: a gap.
- The topic was deleted and created again, as its id tells: new models begin where it begins.

A gap is the one way for an event to be neither scored nor in the dead letters, so each is logged and counted.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from svead_kafka.errors import StateError
from svead_kafka.fingerprints import REMEDY, difference
from svead_kafka.journal import Journal, Mark
from svead_kafka.options import Options
from svead_kafka.partition import new_checkpoint
from svead_kafka.state_topic import Found

log = logging.getLogger(__name__)

REASONS = DELETED, MOVED, TRUNCATED = "deleted", "moved", "truncated"  # why offsets were passed over


class Gap(NamedTuple):
    """Offsets from `start` up to `end` of which some were never scored."""

    source: TopicPartition
    start: int
    end: int
    reason: str

    def __str__(self) -> str:
        topic, partition = self.source
        where = f"{topic}/{partition}: offsets {self.start} to {self.end - 1}"
        if self.reason == DELETED:
            return (
                f"{where} were deleted before they were scored: give the topic a longer retention, or the group more "
                "workers"
            )
        if self.reason == TRUNCATED:
            return (
                f"{where} were scored and then lost by the brokers: messages in their place are not scored; see that "
                "unclean.leader.election.enable is false"
            )
        return f"{where} were passed over by moved offsets: what of them was not scored before is learned, not scored"


class Known(NamedTuple):
    """What is known of an input partition whose models are to be restored."""

    source: TopicPartition
    found: Found
    committed: int | None
    mark: Mark | None
    first: int
    end: int
    topic_id: str | None  # of the topic as it is now; None where brokers have no ids
    partitions: int  # of that topic
    grown: bool  # the partition is younger than the group

    @property
    def name(self) -> str:
        """For the log."""
        return f"{self.source.topic}/{self.source.partition}"

    @property
    def is_another_topic(self) -> bool:
        """Whether the models are of a topic that had the same name."""
        checkpoint = self.found.checkpoint
        then = checkpoint.get("topic_id") if checkpoint is not None else None
        return None not in (then, self.topic_id) and then != self.topic_id

    def fits(self, fingerprint: dict[str, Any]) -> bool:
        """Whether the models that were found are surely those of the committed offset."""
        checkpoint = self.found.checkpoint
        if checkpoint is None or self.committed is None or self.is_another_topic:
            return False
        same = bool(checkpoint["options"] == fingerprint)
        return same and saved_up_to(self.found) <= self.committed and has_all(self.found, self.mark)


class Settled(NamedTuple):
    """Where scoring goes on, whether the models begin there, and what was passed over."""

    offset: int
    is_new: bool
    gaps: list[Gap]


def settle(known: Known, options: Options, fingerprint: dict[str, Any]) -> Settled:
    """Decide where a partition goes on; `known.found` is completed to what its models begin with.

    `fingerprint` is of the models that would be made now.

    Raises
    ------
    StateError
        If that would mean new models, and they are not allowed.
    KafkaTimeoutError
        If the partition ends before the committed offset.
    """
    name, found = known.name, known.found
    gaps: list[Gap] = []
    committed = known.committed
    keep = found.checkpoint is not None
    if not known.is_another_topic:
        check_end(known.source, committed or 0, known.end)
    if known.is_another_topic and (known.mark is None or known.mark.life == _life(found)):
        if committed is None or committed > known.end or known.mark is not None:  # else somebody has moved it here
            committed = known.first
        told = "%s: the topic was deleted and created again: beginning with new models at offset %d; what was not yet "
        log.warning(told + "scored of the old one is lost with it", name, committed)
        keep = False
    elif committed is None:
        committed, keep = _without_offsets(known, options, fingerprint)
    elif not keep:
        _refuse_lost_state(known, options)
    elif _has_other_options(known, options, fingerprint):
        keep = False
    elif not has_all(found, known.mark):
        missing = f"the state topic {options.state} lacks answers or models that were committed with offset {committed}"
        _refuse(f"{missing} of {name}", options)
        keep = False
    elif saved_up_to(found) > committed:
        log.warning("%s: offsets were moved back to %d: beginning with new models", name, committed)
        keep = False
    elif known.mark is None and "topic_id" in _checkpoint(found) and saved_up_to(found) < committed:
        gaps.append(Gap(known.source, saved_up_to(found), committed, MOVED))  # all that we commit has a mark
    offset = max(committed, known.first)
    if offset > committed:
        gaps.append(Gap(known.source, committed, offset, DELETED))
    if not keep:
        found.checkpoint = new_checkpoint(offset, fingerprint, known.topic_id, known.partitions)
        found.models = {}
        log.info("%s: new models, from offset %d", name, offset)
        return Settled(offset, True, gaps)
    checkpoint = _checkpoint(found)
    found.checkpoint = {"topic_id": known.topic_id, "partitions": known.partitions} | checkpoint
    if checkpoint["offset"] < known.first:
        log.warning("%s: the messages to replay were deleted; models may differ from before", name)
    log.info("%s: state at offset %d, going on at %d", name, checkpoint["offset"], offset)
    return Settled(offset, False, gaps)


def check_end(source: TopicPartition, committed: int, end: int) -> None:
    """Raise if a partition ends before what the group has read of it."""
    if committed > end:
        # Also seen for a moment after a broker restart, so it is tried again before giving up.
        raise KafkaTimeoutError(
            f"the group has read {source.topic}/{source.partition} up to offset {committed}, but it ends at {end}; if "
            "messages were lost for good, move the group's offsets with `svead-stream kafka replay`, or take another "
            "group"
        )


def _without_offsets(known: Known, options: Options, fingerprint: dict[str, Any]) -> tuple[int, bool]:
    """Where a group without offsets begins, and whether with the models that were found."""
    if known.found.checkpoint is None:
        if known.grown and options.start == "latest":
            log.info("%s: new to the topic, so it is read from its beginning", known.name)
        return (known.first if options.start == "earliest" or known.grown else known.end), False
    # All that is saved was committed once, so the models are those of an uninterrupted run there.
    committed = saved_up_to(known.found)
    keep = not _has_other_options(known, options, fingerprint)
    log.warning(
        "%s: the group's offsets are gone; going on at %d, where the state is. Events from there on that were scored "
        "before are scored again",
        known.name,
        committed,
    )
    return committed, keep


def _has_other_options(known: Known, options: Options, fingerprint: dict[str, Any]) -> bool:
    checkpoint = _checkpoint(known.found)
    if checkpoint["options"] == fingerprint:
        return False
    _refuse(f"the models of {known.name} {difference(checkpoint, fingerprint)}", options)
    return True


def _refuse_lost_state(known: Known, options: Options) -> None:
    """Refuse offsets of ours without models; those of others are where new ones begin."""
    if known.mark is not None:
        lost = f"the state topic {options.state} has no models of {known.name}, though the group has committed offset"
        _refuse(f"{lost} {known.committed}: was it deleted, or got it other partitions?", options)
    else:
        log.warning("%s: the group has offsets but no models: beginning with new ones", known.name)


def _refuse(why: str, options: Options) -> None:
    if options.if_changed == "fail":
        raise StateError(f"{why}; {REMEDY}")
    log.warning("%s: beginning with new models", why)


def saved_up_to(found: Found) -> int:
    """The offset before which some event may be in a saved model."""
    covered = (saved.covers for saved in found.models.values())
    return max(int(_checkpoint(found)["offset"]), _journal(found).position, *covered)


def has_all(found: Found, mark: Mark | None) -> bool:
    """Whether the journal has all answers that the snapshots cover, and that the committed offset tells of."""
    journal = _journal(found)
    if any(saved.answers > journal.count for saved in found.models.values()):
        return False
    return mark is None or (mark.life == journal.life and mark.version <= journal.version)


def _checkpoint(found: Found) -> dict[str, Any]:
    assert found.checkpoint is not None
    return found.checkpoint


def _life(found: Found) -> str:
    return str(_checkpoint(found)["life"])


def _journal(found: Found) -> Journal:
    """The journal of the models that were found; an empty one if there is none of their life."""
    return (found.journal or Journal("")).of_life(_life(found))
