"""Exactly once, seen from outside: workers and brokers die at random, and other clients check every record.

    python benchmarks/fire_kafka.py [--faults 60] [--mode both] [--events 24000] [--grow 0] [--seed N]

Three brokers, three worker processes of one group (two to five, as they come and go). librdkafka sends the events, with
every codec, half of them in transactions, of which some are aborted or left open; one message in a hundred is no event.
Faults are drawn from the seed: workers and brokers are killed, stopped, paused until others have replaced them. In the
end librdkafka and kcat read back what was written, and it is compared with filters in a plain loop over what was sent:

- every committed event is in the output once, in order, with the same score to the last bit,
- every other message is in the dead letters once, in order, byte for byte,
- what was told of incidents is the same, in the same order,
- nothing of a transaction that was undone is seen.

Exit code 1 if anything is wrong. The seed fixes what is sent and done, not when it hits. Needs Java and Maven, kcat,
and the extras `kafka` and `bench`. Not covered: answers from people (tests/kafka/test_answers_under_fire.py), networks.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The broker and the helpers of the tests first; in this folder, `kafka` would be a benchmark.
sys.path[:1] = [str(ROOT / "tests" / "kafka"), str(ROOT / "tests")]
sys.path.append(str(ROOT / "benchmarks"))

import _fire_check as check  # noqa: E402
from _fire_clients import DEADLINE, LARGEST, Group, Messages, Sender, codecs, kcat, read  # noqa: E402
from _fire_faults import Crew, Faults  # noqa: E402
from broker import Cluster  # noqa: E402
from streams import Stream  # noqa: E402
from svead_kafka import Options, Worker  # noqa: E402

PARTITIONS = 6
WORKERS = 3


def options_of(stream: Stream, mode: str) -> Options:
    """Small batches and few snapshots: many transactions to die in, and something to replay."""
    return stream.options(
        mode, model_per=mode, features=check.FEATURES, max_event_bytes=LARGEST, max_batch=60, snapshot_every=700,
        max_models=6, alert_rate=0.03, burn_in=50, hold_off=5, detector={"seed": 7, "max_features": 10},
    )  # fmt: skip


class Fire:
    """One run: a stream, a crew, and faults.

    Parameters
    ----------
    cluster
        The brokers.
    mode
        What has a model: partition or key.
    seed
        Of all that is drawn.
    folder
        For the workers' logs.
    """

    def __init__(self, cluster: Cluster, mode: str, seed: int, folder: Path) -> None:
        self._cluster, self._rng = cluster, random.Random(f"{seed} {mode}")
        self.stream = Stream(cluster.bootstrap, f"fire-{mode}", PARTITIONS, replication=3)
        self.options = options_of(self.stream, mode)
        more = ["--features", ",".join(check.FEATURES), "--max-event-bytes", str(LARGEST)]
        more += ["--alert-rate", str(self.options.alert_rate)]
        self.crew = Crew(self.options, folder, more)
        self._group = Group(cluster.bootstrap, self.options.group, self.stream.input)
        messages = Messages(PARTITIONS, random.Random(f"{seed} messages"))
        self.faults = Faults(cluster, self.crew, self._group, messages, self._rng)
        self.sender = Sender(cluster.bootstrap, self.stream.input, messages, random.Random(f"{seed} sending"))

    def burn(self, faults: int, growth: int, events: int) -> None:
        """Send, do harm, and wait until the workers are done with it all."""
        for _ in range(WORKERS):
            self.crew.add()
        self.sender.start()
        plan = self.faults.plan(faults, growth)
        began = time.monotonic()
        self.sender.wanted = events // (faults + 1)
        self._wait_for_progress(0)
        for n, kind in enumerate(plan, 1):
            before = self._done()
            self.sender.wanted = events * (n + 1) // (faults + 1)
            if self._rng.random() < 0.7:
                self._wait_for_progress(before)
            time.sleep(self._rng.uniform(0.0, 1.0))
            done = self.faults.do(kind)
            print(f"  {time.monotonic() - began:5.0f} s  {n:3d}  {done:<40}at {self._done():>7,}", flush=True)
        self.sender.finish()
        self._wait_for_all()
        for name in list(self.crew.processes):
            self.crew.dismiss(name)

    def _done(self) -> int:
        return sum(self._group.committed().values())

    def _wait_for_progress(self, before: int) -> None:
        self._wait(lambda: self._done() > before, "no progress")

    def _wait_for_all(self) -> None:
        ends = {record.partition: record.offset + 1 for record in read(self._cluster.bootstrap, self.stream.input)}
        self._wait(
            lambda: all(self._group.committed().get(partition, 0) >= end for partition, end in ends.items()),
            f"not all was committed: {ends} wanted",
        )

    def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            if self.sender.failure is not None:
                raise self.sender.failure
            if time.monotonic() > deadline:
                raise TimeoutError(f"{otherwise} in {DEADLINE:.0f} s; committed {self._group.committed()}")
            self.crew.tend()
            time.sleep(0.1)

    def close(self) -> None:
        self.crew.close()
        self._group.close()


def judge(fire: Fire, bootstrap: str, data: Path) -> list[str]:
    """Compare, print the tables, and say what is wrong."""
    options, sender = fire.options, fire.sender
    wrong = list(fire.crew.wrong)
    sent = read(bootstrap, fire.stream.input)
    numbers = {record.number for record in sent}
    if len(numbers) != len(sent) or sender.arrived - numbers or sender.undone & numbers:
        wrong.append("the input is not what was sent: the check itself is at fault")
    filters = {"alert_rate": options.alert_rate, "hold_off": options.hold_off, "burn_in": options.burn_in}
    keyed = options.model_per == "key"
    reference = check.Reference(fire.stream.input, keyed, options.detector, filters, options.top_features)
    expected = reference.run(sent)
    topics = {
        "scored events": (options.output, expected.scored, check.scored),
        "dead letters": (options.dead_letters or "", expected.dead, check.dead),
        "incidents": (options.incidents or "", expected.incidents, check.incidents),
    }
    print(f"\n{'':<16}{'expected':>10}{'found':>10}{'kcat':>10}{'lost':>7}{'twice':>7}{'strange':>9}{'different':>11}"
          f"{'out of order':>14}")  # fmt: skip
    seen: set[int] = set()
    for name, (topic, wanted, found_in) in topics.items():
        records = read(bootstrap, topic)
        seen |= {record.number for record in records}
        tally, counted = check.compare(wanted, found_in(records)), kcat(bootstrap, topic)
        print(f"{name:<16}{tally.expected:>10,}{tally.found:>10,}{counted:>10,}{tally.lost:>7}{tally.twice:>7}"
              f"{tally.strange:>9}{tally.different:>11}{tally.disordered:>14}")  # fmt: skip
        if not tally.clean or counted != tally.found:
            wrong += [f"{name} are not as they should be", *tally.examples]
    kinds = sorted({record.kind for record in sent} - {check.GOOD})
    print(f"messages sent {len(sent):,} and undone {len(sender.undone):,}, of which seen {len(seen & sender.undone)}")
    print(f"no events, of {len(kinds)} kinds: {', '.join(kinds)}")
    print("batches by codec:", ", ".join(f"{name} {n}" for name, n in sorted(codecs(data, fire.stream.input).items())))
    if seen & sender.undone:
        wrong.append("messages of undone transactions were seen")
    return wrong


def run(cluster: Cluster, mode: str, given: argparse.Namespace, folder: Path) -> bool:
    """One mode; returns whether all was well."""
    print(f"\nmodel per {mode}, seed {given.seed}", flush=True)
    folder.mkdir()
    fire = Fire(cluster, mode, given.seed, folder)
    began = time.monotonic()
    try:
        fire.burn(given.faults, given.grow, given.events)
        took = time.monotonic() - began
        data = Path(cluster.nodes[0].folder) / "data"
        wrong = judge(fire, cluster.bootstrap, data)
    finally:
        fire.close()
    print(f"\n{sum(fire.faults.done.values())} faults in {took:.0f} s")
    for kind, count in sorted(fire.faults.done.items()):
        print(f"  {kind:<40}{count:>4}")
    ended = ", ".join(f"{count} with {code}" for code, count in sorted(fire.crew.ended.items())) or "none"
    print(f"workers that ended of themselves: {ended}")
    for line in wrong:
        print(f"WRONG: {line}")
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--faults", type=int, default=60, help="in each mode")
    parser.add_argument("--grow", type=int, default=0, help="faults of these that add a partition to the input")
    parser.add_argument("--events", type=int, default=24_000, help="messages in each mode")
    parser.add_argument("--mode", choices=["partition", "key", "both"], default="both", help="what has a model")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    given = parser.parse_args()
    if shutil.which("kcat") is None:
        parser.error("kcat is not installed; it is the second witness (Debian package kcat)")
    folder = Path(tempfile.mkdtemp(prefix="fire-"))
    cluster = Cluster(folder / "kafka", 3)
    fine = False
    try:
        cluster.start()
        Worker(Options(input=["in"], output="out")).warm_up()  # kernels go to the cache that the processes read
        modes = ["partition", "key"] if given.mode == "both" else [given.mode]
        results = [run(cluster, mode, given, folder / mode) for mode in modes]  # the second also if the first was bad
        fine = all(results)
    finally:
        cluster.stop()
        if fine:
            shutil.rmtree(folder)
        else:
            print(f"logs of workers and brokers are in {folder}")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
