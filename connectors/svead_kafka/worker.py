"""The worker: reads events, scores and learns them, and writes everything that follows in transactions.

The order of a transaction
--------------------------
One poll is one transaction; no transaction is open while the group can rebalance, which only happens inside a poll.

1. Give the models the answers that have come in, where there is a feedback topic. Decode the polled records; score and
   learn the good ones, in memory.
2. Begin the transaction. Send scored events, what is told of incidents, dead letters, due snapshots and the checkpoint
   that goes with them, and the journal of the answers.
3. Send the input offsets (last + 1) with the membership under which the records were polled. The version of the journal
   goes with them. Answers alone make a transaction, too: it commits the offsets that are committed already.
4. Flush, and see that the broker has taken every record.
5. Commit. Only now does the worker count the batch, send notifications, and let go of models that moved to the state
   topic.

Why the committed output is that of a run that was never interrupted
--------------------------------------------------------------------
- Steps 2 to 4 become visible together at 5 or never: an event is in the output, and what it changed of incidents in
  their topic, if and only if its offset is committed.
- If anything fails before 5, models in memory have learned events that are not committed. They are thrown away, and
  so is the producer (a used one would carry leftovers into the next transaction). The next producer of the same
  transactional id first ends what is open, so that the committed offset, read after that, is final.
- After 5, or after a crash at any point, the committed offset c is the truth. partition.py shows that restoring gives
  the models of an uninterrupted run at c, their open incidents included; scoring goes on at c. So the incidents are
  those of an uninterrupted run as well: the replay that leads to c is silent, and the rest is told at the same events.
- Where in the stream an answer is taken is decided once. It is committed with what the answer changed (journal.py), and
  so is how far the feedback topic was read (feedback.py). An uninterrupted run is one with the same order.
- A worker that lost its partitions without knowing (a zombie) sends a membership that the coordinator refuses at 3, so
  5 is never reached. A membership is never taken while the worker is out of the group: the coordinator would let that
  pass. A static member (instance_id) that comes back gets a new member id, mostly in the same generation; the old id is
  refused from then on, by heartbeats as well as at 3, since the membership carries the instance id, too.
- A new owner waits for offsets that an open transaction of the old one still holds (read_committed does that), so it
  can never begin below an offset that is about to be committed.

Notifications are no part of this. They are sent after 5, so that none tells of what never happened; one that was not
delivered when the process died is lost (announce.py).
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from kafka import OffsetAndMetadata, TopicPartition
from kafka.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError

from svead_kafka.announce import Announcer
from svead_kafka.assignment import Assignment, AssignmentChanged
from svead_kafka.brokers import BrokerWatch
from svead_kafka.bulk import last_error
from svead_kafka.client import (
    BATCH_BYTES,
    REFUSED,
    TRANSACTION_TIMEOUT_MS,
    Clients,
    LastComplaint,
    check_room,
    message_limits,
    topic_settings,
)
from svead_kafka.errors import ConfigurationError, GaveUp
from svead_kafka.events import Event, decoder
from svead_kafka.faults import permanent
from svead_kafka.health import Health
from svead_kafka.live import Live
from svead_kafka.metrics import Metrics
from svead_kafka.models import MakeDetector, Maker
from svead_kafka.options import Options, describe
from svead_kafka.outgoing import Outcome, Outgoing
from svead_kafka.partition import Partition
from svead_kafka.stamps import Stamps
from svead_kafka.topics import Topics
from svead_kafka.watchdog import Watchdog, bounded
from svead_stream.judging import ConformalFilter
from svead_stream.protocols import JudgesMany
from svead_stream.warm import telling_of_compilation

log = logging.getLogger(__name__)

_POLL_MS = 200
_FIRST_BATCH = 100  # events; grows as long as batches are quick
_BATCH_SECONDS = 1.0  # a batch that takes longer makes the next one smaller
_FASTEST_GROWTH = 8  # times, from one batch to the next
_LONGEST_PAUSE = 30.0
_LOOK = 0.5  # seconds between two looks at the offsets of the group
_FORGIVEN = 300.0  # seconds after which an old failure no longer counts
_MOST_FENCED = 3  # times that another may take the transactional id; once can be a slow transaction of our own
_LEAVING = 8.0  # seconds for each of the last transaction and the client's end; supervisors kill after 30 and less


class Aborted(Exception):
    """A transaction was not committed; the cause is chained."""


class Worker:
    """A member of a consumer group that scores events exactly once.

    Parameters
    ----------
    options
        What to read, write and do.
    detector
        Called with a seed, returns a new river detector or pipeline to use in place of StreamingSVEAD.
    dumps, loads
        How to turn a ConformalFilter around that detector to bytes and back; needed where it has no ``to_bytes``.
        `pickle.dumps` and `pickle.loads` will do if nobody else can write to the state topic.

    Examples
    --------
    >>> from svead_kafka import Options, Worker
    >>> options = Options(bootstrap="localhost:9092", input=["orders"], output="orders-scored", group="fraud")
    >>> Worker(options).run()  # doctest: +SKIP
    """

    def __init__(
        self,
        options: Options,
        detector: MakeDetector | None = None,
        dumps: Callable[[ConformalFilter], bytes] | None = None,
        loads: Callable[[bytes], ConformalFilter] | None = None,
    ) -> None:
        self.options = options
        self.metrics = Metrics()
        self._clients = Clients(options)
        self._maker = Maker(options, detector, dumps, loads)
        self._decoder = decoder(options)
        self._announcer = Announcer(options, self.metrics)
        self._watchdog = Watchdog(options.stall_timeout)
        self._brokers = BrokerWatch(options.bootstrap, self.metrics)
        self.health = Health(self.metrics, self._watchdog, self._unready)
        self._live = Live(options)
        self._phase = "starting"
        self._is_warm = False
        name = self._clients.instance_id or uuid4().hex[:12]
        self._transactional_id = options.transactional_id or f"{options.group}-{name}"
        self._stopping = threading.Event()
        self._complaint = LastComplaint()
        # The coordinator aborts a transaction that takes longer than its timeout, so there is no use in waiting on.
        timeout_ms = options.client.get("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
        self._patience = timeout_ms / 1000 + 15
        self._failures = 0
        self._fenced = 0
        self._failed_at = 0.0
        self._limit = min(_FIRST_BATCH, options.max_batch)
        self._last_batch = 0.0
        self._full = False
        self._topics = Topics(options)
        self._ends: dict[TopicPartition, int] = {}  # of the input when the worker started
        self._assignment: Assignment | None = None
        self._producer: Any = None
        self._outgoing: Outgoing | None = None

    def stop(self) -> None:
        """Finish the batch, save, commit, leave the group and return from `run`. Safe to call from signal handlers."""
        self._stopping.set()

    def warm_up(self) -> None:
        """Compile what scoring needs before the group counts on this worker; `run` begins with it.

        The metrics port answers from here on, since it may take a while.
        """
        if self._is_warm:
            return
        if self.options.metrics_port is not None:
            self.health.serve(self.options.metrics_port, self.options.metrics_host)
        self._live.serve()
        self._phase = "compiling"
        self._watchdog.beat("compiling")
        with telling_of_compilation(log.info):
            self._compile()
        self._is_warm = True

    def _compile(self) -> None:
        model = self._maker.new("", 0, None)
        if not isinstance(model.judge.detector, JudgesMany):
            return  # there is nothing to compile, and it may not know what to do with such an event
        row = Event(None, ("x",), (0.0,))
        model.take([row])
        model.take([row] * 2000)
        model.take([Event(None, ("x",), (1.0,))])  # an alert, to be explained
        if self.options.feedback is not None:
            for is_anomaly in (True, False):
                model.answer(("x",), (1.0,), is_anomaly, self.options.teach_false_alarms)

    def run(self) -> None:
        """Work until `stop` is called.

        Raises
        ------
        GaveUp
            The cluster stayed out of reach.
        ConfigurationError, StateError
            Trying again would not help.
        """
        self.warm_up()
        self._watchdog.start()
        self._brokers.start()
        client_log = logging.getLogger("kafka")
        client_log.addHandler(self._complaint)
        try:
            while not self._stopping.is_set():
                try:
                    self._connect()
                    self._work()
                    self._leave()
                except (KafkaError, Aborted) as error:
                    self._disconnect()
                    self._after_failure(error)
        finally:
            self._disconnect()
            client_log.removeHandler(self._complaint)
            self._brokers.stop()
            self._watchdog.stop()
            self._announcer.close()
            self.health.close()
            self._live.close()

    def _unready(self) -> str:
        """Why this worker does not do its part; nothing if it does."""
        if self._stopping.is_set():
            return "leaving"
        if self._brokers.is_lost:
            return "broker lost"
        assignment = self._assignment
        return "" if assignment is not None and assignment.is_restored else self._phase

    # connections

    def _connect(self) -> None:
        self._phase = "connecting"
        self._watchdog.beat("connecting")
        self._clients.look_for_broker()
        if not self._topics.counts:
            self._topics.prepare(self._clients)
            settings = topic_settings(self._clients, self.options.written)
            self._limits, self._stamps = message_limits(settings), Stamps(settings)
            check_room(self.options, self._limits)
            for line in describe(self.options, self._topics.counts) + self._stamps.describe():
                log.info(line)
        self._new_producer()
        self._assignment = Assignment(
            self._clients, self._maker, self._decoder, self._watchdog, self.metrics, self._topics
        )
        if self.options.until_end and not self._ends:
            self._ends = self._assignment.ends()
        self._brokers.watch(self._assignment.is_connected)
        self._phase = "joining"

    def _new_producer(self) -> None:
        self._close_producer()
        self._watchdog.beat("ending what an earlier transaction may have left open")
        largest = min(self._limits.values(), default=BATCH_BYTES)
        self._producer = self._clients.producer(self._transactional_id, largest)
        self._outgoing = Outgoing(self._producer, self.options, self._topics.counts, self._limits, self._stamps)

    def _close_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is None:
            return
        with suppress(KafkaError):  # it is given up with whatever it still holds
            producer.close(timeout=0)
        # With something unsent, close stops short of ending its thread. That thread would find itself fenced by the
        # next producer, take a new epoch of the same transactional id, and so fence the next producer in turn.
        producer._sender.force_close()
        producer._sender.join(timeout=_LEAVING if self._stopping.is_set() else self._patience)
        if producer._sender.is_alive() and not self._stopping.is_set():
            raise GaveUp("the client's sender does not end, and would disturb the next one")

    def _disconnect(self) -> None:
        self._phase = "connecting"
        self._watchdog.beat("closing connections")
        self._brokers.watch(None)
        if self._assignment is not None:
            self._assignment.close()
            self._assignment = None
        self._close_producer()

    def _after_failure(self, error: Exception) -> None:
        """Pause, longer after each failure in a row; give up after too many, and at once if it will not pass."""
        cause = error.__cause__ or error
        complaint = self._complaint.take()
        if not self._topics.counts and REFUSED in complaint:
            raise ConfigurationError(f"the cluster at {self.options.bootstrap} refuses the worker: {complaint}")
        told = permanent(cause)
        if told is not None:
            raise ConfigurationError(told) from cause
        reason = f"{cause!r} ({complaint})" if complaint else repr(cause)
        self.metrics.retries.inc()
        if time.monotonic() - self._failed_at > _FORGIVEN:
            self._failures = self._fenced = 0
        self._failed_at = time.monotonic()
        self._failures += 1
        self._fenced += isinstance(cause, (ProducerFencedError, InvalidProducerEpochError))
        if self._fenced >= _MOST_FENCED:
            raise ConfigurationError(
                f"another worker uses the transactional id {self._transactional_id!r}, and took it {self._fenced} "
                "times: give each worker its own --transactional-id, or none"
            )
        if self._failures > self.options.max_retries:
            raise GaveUp(f"{self._failures} failures in a row, the last: {reason}") from cause
        pause = min(_LONGEST_PAUSE, 0.25 * 2**self._failures) * random.uniform(0.75, 1.25)
        log.warning("%s: trying again in %.1f s (%d of %d)", reason, pause, self._failures, self.options.max_retries)
        self._watchdog.beat("pausing after a failure")
        self._stopping.wait(pause)

    # the loop

    def _work(self) -> None:
        assert self._assignment is not None
        while not self._stopping.is_set():
            self._pace()
            self._watchdog.beat("polling")
            polled = self._assignment.poll(_POLL_MS, self._limit)
            try:
                if polled is None:
                    self._restore()
                else:
                    self._batch(polled)
            except Aborted as aborted:
                # The membership may well be intact: only the producer and the models are replaced.
                self._assignment.forget()
                self._close_producer()
                self._after_failure(aborted)
                if self._stopping.is_set():
                    break
                self._new_producer()
            self._report()
            if self._ends and self._assignment.is_past(self._ends) and self._group_is_past_the_ends():
                log.info("all that was there at the start is scored")
                self.stop()

    def _group_is_past_the_ends(self) -> bool:
        """Whether the group has scored what was there at the start; who has no partitions may get some yet."""
        committed = self._clients.committed()
        self._watchdog.beat("looking at the group's offsets")
        done = all(source in committed and committed[source].offset >= end for source, end in self._ends.items())
        if not done:
            self._stopping.wait(_LOOK)
        return done

    def _pace(self) -> None:
        """Let a slow stream gather for `commit_every`; a fast one that fills its batches is not held up."""
        wait = self._last_batch + self.options.commit_every / 1000 - time.monotonic()
        if wait > 0 and not self._full:
            self._stopping.wait(wait)
        self._last_batch = time.monotonic()

    def _restore(self) -> None:
        assert self._assignment is not None
        self.metrics.rebalances.inc()
        self._phase, began = "restoring", time.monotonic()
        with suppress(AssignmentChanged):  # the next poll finds out what is ours now
            new = self._assignment.restore()
            self.metrics.restored(self._assignment.partitions, time.monotonic() - began)
            if new:
                self._transact(new, {}, new=new)
            return
        self._phase = "joining"

    def _batch(self, polled: dict[TopicPartition, list[Any]]) -> None:
        assert self._assignment is not None
        began = time.monotonic()
        partitions, feedback = self._assignment.partitions, self._assignment.feedback
        self._watchdog.beat("taking answers")
        outcomes = feedback.take(partitions) if feedback is not None else {}
        count = 0
        for source, position in self._assignment.passed().items():
            records = polled.get(source, [])
            self._watchdog.beat(f"scoring {len(records)} events of {source.topic} {source.partition}")
            good, bad = self._decoder.decode(records)
            outcome = outcomes.setdefault(source, Outcome())
            if len(good) + len(bad) < len(records):
                outcome.tombstones = [record.offset for record in records if record.value is None]
            outcome.scored, refused = partitions[source].take(good, position)
            outcome.bad = sorted(bad + refused, key=lambda one: one.record.offset)  # however the batches are cut
            count += len(records)
        if not outcomes:
            return
        self._transact(outcomes, outcomes)
        self._failures = 0
        if not count:
            return
        took = time.monotonic() - began
        self.metrics.batch.observe(took)
        self._full = count >= self._limit
        if took > _BATCH_SECONDS:
            self._limit = max(1, int(count * _BATCH_SECONDS / took))
        elif self._full:  # a small batch that was quick says nothing of a large one
            growth = min(_FASTEST_GROWTH, max(2, int(_BATCH_SECONDS / max(took, 0.001))))
            self._limit = min(self.options.max_batch, self._limit * growth)

    def _transact(
        self,
        sources: Iterable[TopicPartition],
        outcomes: dict[TopicPartition, Outcome],
        new: dict[TopicPartition, Partition] | None = None,
        leaving: bool = False,
    ) -> None:
        """Steps 2 to 5 of the order above; on leaving, all models are saved."""
        assert self._assignment is not None
        assert self._outgoing is not None
        out = self._outgoing
        options = self.options
        partitions = {source: self._assignment.partitions[source] for source in sources}
        share = max(1, options.max_models // max(1, len(self._assignment.partitions)))
        try:
            self._watchdog.beat("sending a transaction")
            self._producer.begin_transaction()
            for source, outcome in outcomes.items():
                out.outcome(source, outcome)
            for source, partition in partitions.items():
                for futures, record in partition.save(options.snapshot_every, share, everything=leaving):
                    futures.append(out.state(source, record))
            for source, partition in (new or {}).items():
                for record in partition.first_records():
                    out.state(source, record)
            self._watchdog.beat("committing a transaction")
            began = time.monotonic()
            marks = {source: OffsetAndMetadata(one.position, one.mark, -1) for source, one in partitions.items()}
            finish = partial(_finish, self._producer, out, marks, self._assignment.membership)
            bounded(finish, self._patience, self._stopping, _LEAVING)
        except KafkaError as error:
            # Once a transaction has failed, all that is asked of the producer fails, with words instead of the cause.
            first = last_error(self._producer)
            cause = first if type(error) is KafkaError and isinstance(first, KafkaError) else error
            out.explain(cause, outcomes.values())
            raise Aborted from cause
        self.metrics.commit.observe(time.monotonic() - began)
        self._committed(outcomes, partitions)

    def _committed(self, outcomes: dict[TopicPartition, Outcome], partitions: dict[TopicPartition, Partition]) -> None:
        """Step 5, after the commit."""
        self.metrics.last_commit.set_to_current_time()
        for source, partition in partitions.items():
            size = partition.committed()
            if size is not None:
                self.metrics.snapshot_bytes.labels(source.topic, str(source.partition)).set(size)
            self._announcer.odd(source, partition.odd_since_last())
        for source, outcome in outcomes.items():
            self._announcer.batch(source, outcome)
            self._live.batch(outcome.scored, partitions[source])

    def _report(self) -> None:
        assert self._assignment is not None
        self._live.update(self._assignment.partitions)
        self.metrics.models.set(sum(map(len, self._assignment.partitions.values())))
        for source, lag in self._assignment.lags().items():
            label = (source.topic, str(source.partition))
            self.metrics.lag.labels(*label).set(lag)
            age = time.time() - self._assignment.partitions[source].saved_at
            self.metrics.snapshot_age.labels(*label).set(age)
        for source in self._assignment.gone():
            self.metrics.forget(source.topic, source.partition)

    def _leave(self) -> None:
        """Save what is not saved, so that the next owner has nothing to replay."""
        assert self._assignment is not None
        if not self._assignment.is_restored:
            log.warning("stopped amid a failure or a rebalance; everything scored is committed, models are not saved")
            return
        unsaved = [source for source, one in self._assignment.partitions.items() if one.unsaved]
        try:
            if unsaved:
                self._transact(unsaved, {}, leaving=True)
            log.info("stopped; everything scored is committed and the models are saved")
        except Aborted as aborted:
            log.warning(
                "stopped; everything scored is committed, but the models of %s could not be saved (%r): the next start "
                "learns again what came since they were",
                ", ".join(f"{source.topic}/{source.partition}" for source in unsaved),
                aborted.__cause__,
            )


def _finish(producer: Any, out: Outgoing, marks: dict[TopicPartition, OffsetAndMetadata], membership: Any) -> None:
    """Steps 3 to 5 of the order above: the calls that wait for the cluster.

    If they hang, they are left behind and the worker goes on with a new producer. So they must not touch the worker,
    and whatever they still do is harmless: either they commit before the new producer fences them, and the offset that
    the worker then reads says so, or they fail.
    """
    producer.send_offsets_to_transaction(marks, membership)
    producer.flush()
    out.check()
    producer.commit_transaction()
