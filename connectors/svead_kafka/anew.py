"""Beginning anew: forget the models of a group, and move its offsets if that is wanted.

Why nothing is lost on the way
------------------------------
- All happens in one transaction: the checkpoint and the models of a partition are deleted from the state topic, and its
  offset is committed without the mark that names them. A worker finds all of it or nothing, and begins with new models
  at that offset.
- Nobody works meanwhile. The command refuses if the group has members. Then it joins the group, and goes on only if it
  owns every partition that it deals with and finds what it has planned with. The offsets are sent with this membership:
  if a worker has joined by then and owns something, the coordinator refuses them.
- Journals stay, so that answers which the old models have had are not taken again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import isnan
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, NoOffsetForPartitionError, OffsetOutOfRangeError
from kafka.structs import MemberState

from svead_kafka import times
from svead_kafka.client import Clients
from svead_kafka.errors import ConfigurationError, StateError
from svead_kafka.state_topic import StateKey, StateReader
from svead_kafka.tools import patiently

_WAIT_S = 60.0


@dataclass(frozen=True)
class Step:
    """What becomes of one input partition.

    Parameters
    ----------
    source
        The input partition.
    before, after
        The committed offset now and then; None where there is none.
    keys
        Records of the state topic to delete.
    models
        How many models these are.
    remark
        Why `after` is not what was asked for, if so.
    """

    source: TopicPartition
    before: int | None
    after: int | None
    keys: tuple[StateKey, ...]
    models: int
    remark: str = ""

    @property
    def found(self) -> tuple[TopicPartition, int | None, tuple[StateKey, ...]]:
        """What the plan was made from, except for what producers change all the time."""
        return self.source, self.before, self.keys

    @property
    def goes_back(self) -> bool:
        """Whether messages are scored again."""
        return self.before is not None and self.after is not None and self.after < self.before

    def __str__(self) -> str:
        name = f"{self.source.topic}/{self.source.partition}"
        where = "no offset committed" if self.after is None else f"at offset {self.after}, as committed"
        if self.before != self.after:
            where = f"offset {'none' if self.before is None else self.before} -> {self.after}"
        models = "1 saved model is" if self.models == 1 else f"{self.models} saved models are"
        return f"{name}: {where}; {models} forgotten{self.remark}{self._consequence()}"

    def _consequence(self) -> str:
        if self.before is None or self.after is None or self.before == self.after:
            return ""
        low, high = sorted((self.before, self.after))
        what = "will be scored again" if self.goes_back else "WILL NOT BE SCORED"
        return f"; messages {low} to {high - 1} {what}"


class Anew:
    """Plans to begin anew, and carries them out.

    Parameters
    ----------
    clients
        Of a worker of the group; its input topics are those to deal with.
    partitions
        Numbers of the partitions to deal with; all if there are none.
    begin
        Where to begin: ``earliest``, ``latest``, an offset or a time; None leaves the offsets where they are.
    """

    def __init__(self, clients: Clients, partitions: Iterable[int] = (), begin: str | None = None) -> None:
        self._clients = clients
        self._options = clients.options
        self._partitions = set(partitions)
        self._begin = _parsed(begin)

    def plan(self) -> list[Step]:
        """What there is to do. Nothing is changed."""
        self._clients.look_for_broker()
        self._check_group_and_state()
        member = self._clients.member()
        try:
            return self._plan(member)
        finally:
            member.close()

    def carry_out(self, planned: list[Step]) -> None:
        """Do what was planned, if nothing has changed since."""
        member = self._clients.member()
        producer = None
        try:
            membership = self._join(member, planned)
            if [step.found for step in self._plan(member)] != [step.found for step in planned]:
                raise StateError(f"group {self._options.group!r} has changed meanwhile: nothing was done, plan again")
            producer = self._clients.producer(f"{self._options.group}-anew")
            self._transact(producer, planned, membership)
        finally:
            if producer is not None:
                producer.close(timeout=_WAIT_S)
            member.close()

    def _transact(self, producer: Any, planned: list[Step], membership: Any) -> None:
        producer.begin_transaction()
        try:
            sent = [
                producer.send(self._options.state, key=one.key, value=None, partition=one.partition)
                for step in planned
                for one in step.keys
            ]
            offsets = {step.source: OffsetAndMetadata(step.after, "", -1) for step in planned if step.after is not None}
            if offsets:
                producer.send_offsets_to_transaction(offsets, membership)
            producer.flush()
            for future in sent:
                future.get(timeout=_WAIT_S)
        except KafkaError:
            with suppress(KafkaError):  # else the coordinator does it soon
                producer.abort_transaction()
            raise
        producer.commit_transaction()

    def _check_group_and_state(self) -> None:
        state = self._options.state
        admin = self._clients.admin()
        try:
            self._check_members(admin, 0)
            if state not in admin.list_topics():
                raise ConfigurationError(f"state topic {state!r} does not exist; name the worker's --output or --state")
        finally:
            admin.close()

    def _check_members(self, admin: Any, expected: int) -> None:
        group = self._options.group
        members = patiently(lambda: admin.describe_groups([group]))[group]["members"]
        if len(members) > expected:
            hosts = ", ".join(sorted({member["client_host"].strip("/") for member in members}))
            raise ConfigurationError(
                f"group {group!r} has {len(members)} members, at {hosts}: stop its workers first; one that was killed "
                "stays a member until its session is over, mostly 45 s"
            )

    def _plan(self, member: Any) -> list[Step]:
        wanted = self._sources(member)
        begins, ends = member.beginning_offsets(wanted), member.end_offsets(wanted)
        asked = self._asked(member, begins, ends)
        keys = self._keys()
        steps = []
        for source in wanted:
            before = member.committed(source, timeout_ms=_WAIT_S * 1000)
            after, remark = _clamped(before if self._begin is None else asked[source], begins[source], ends[source])
            if self._begin is None and before is not None and before > ends[source]:
                raise ConfigurationError(
                    f"the committed offset {before} of {source.topic}/{source.partition} lies beyond its end, "
                    f"{ends[source]}: was the topic made again? Then replay --from earliest is what you want"
                )
            own = tuple(keys.get(source, ()))
            if own or after is not None:
                models = len({one.model for one in own if one.model is not None})
                steps.append(Step(source, before, after, own, models, remark))
        return steps

    def _sources(self, member: Any) -> list[TopicPartition]:
        found = []
        for topic in self._options.input:
            numbers = member.partitions_for_topic(topic)
            if not numbers:
                raise ConfigurationError(f"input topic {topic!r} does not exist at {self._options.bootstrap}")
            lacking = sorted(self._partitions - numbers)
            if lacking:
                raise ConfigurationError(f"topic {topic!r} has no partition {lacking[0]}, only {len(numbers)} of them")
            found += [TopicPartition(topic, number) for number in sorted(self._partitions or numbers)]
        return found

    def _asked(
        self, member: Any, begins: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The offsets to begin at, wherever they are."""
        if self._begin == "earliest":
            return begins
        if isinstance(self._begin, int):
            return dict.fromkeys(begins, self._begin)
        if isinstance(self._begin, float):
            found = member.offsets_for_times(dict.fromkeys(begins, int(self._begin * 1000)))
            return {source: ends[source] if at is None else at.offset for source, at in found.items()}
        return ends

    def _keys(self) -> dict[TopicPartition, list[StateKey]]:
        reader = StateReader(self._clients.reader(), self._options.state, self._options.group)
        try:
            return reader.keys(self._clients.end)
        finally:
            reader.close()

    def _join(self, member: Any, planned: list[Step]) -> Any:
        """Our membership in the group, once we own every partition of the plan; there is nothing to fetch for us."""
        wanted = {step.source for step in planned}
        member.subscribe(topics=sorted({source.topic for source in wanted}))
        admin = self._clients.admin()
        try:
            deadline = time.monotonic() + _WAIT_S
            while time.monotonic() < deadline:
                if all(member.partitions_for_topic(source.topic) for source in wanted):
                    with suppress(NoOffsetForPartitionError, OffsetOutOfRangeError):
                        member.poll(timeout_ms=100, max_records=1)
                membership = member.group_metadata()
                if membership.state == MemberState.STABLE:
                    if wanted <= member.assignment():
                        return membership
                    self._check_members(admin, 1)
        finally:
            admin.close()
        raise KafkaTimeoutError(f"could not join group {self._options.group!r} in {_WAIT_S:.0f} s")


def _parsed(begin: str | None) -> str | int | float | None:
    """A word, an offset, or a time in seconds since 1970."""
    if begin is None or begin in ("earliest", "latest"):
        return begin
    if begin.isdecimal():
        return int(begin)
    moment = times.seconds(begin)
    if isnan(moment):
        raise ConfigurationError(
            f"--from must be earliest, latest, an offset, or a time such as 2026-03-02T04:00:00Z, not {begin!r}"
        )
    return moment


def _clamped(offset: int | None, first: int, end: int) -> tuple[int | None, str]:
    """The nearest offset that exists, and a word where it is another."""
    if offset is not None and offset < first:
        return first, f"; {offset} is gone, the topic begins at {first}"
    if offset is not None and offset > end:
        return end, f"; {offset} is not there yet, the topic ends at {end}"
    return offset, ""
