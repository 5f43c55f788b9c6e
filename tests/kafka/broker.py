"""A real Apache Kafka for the tests: brings the jars, starts KRaft nodes on free ports, stops and kills them.

No Kafka server ships on PyPI, and a mock would hide what these tests are about (transactions, fencing,
rebalances), so Maven fetches the broker named in pom.xml once and keeps it in ``.cache`` at the project's root. The
same goes for the oldest one that a worker can be used with, which still needs ZooKeeper.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from fetching import one_at_a_time

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
POM = HERE / "pom.xml"

# Small and quick: a test machine has few cores, and a dead worker should be noticed within seconds.
SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
    "SASL_SSL:SASL_SSL,MTLS:SSL,OAUTH:SASL_SSL",
    "auto.create.topics.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.load.buffer.size": "1048576",
    "offsets.load.buffer.size": "1048576",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "log.flush.interval.messages": "9223372036854775807",
}


SECURE = ("SASL_SSL", "MTLS", "OAUTH")  # listeners of a secure cluster: TLS with a password, certificates, tokens


class NoBroker(Exception):
    """The machine cannot start a broker; the message says what is missing."""


def jars(version: str = "kafka.version") -> Path:
    """The folder with the jars of a broker, named as in pom.xml, fetched by Maven when it is not there yet."""
    match = re.search(rf"<{re.escape(version)}>(.+?)</", POM.read_text())
    assert match, f"no <{version}> in {POM}"
    folder = Path(os.environ.get("SVEAD_TEST_CACHE", ROOT / ".cache")) / f"kafka-{match[1]}"
    with one_at_a_time():
        if not (folder / "complete").exists():
            _fetch(folder, match[1])
    return folder


def _fetch(folder: Path, version: str) -> None:
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise NoBroker(f"{program} is not installed; it is needed to start a Kafka broker")
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-Dkafka.version={version}"]
    command += [f"-DoutputDirectory={folder}", f"-DbuildDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise NoBroker(f"Maven could not fetch the broker: {(done.stdout + done.stderr)[-500:]}")
    (folder / "complete").touch()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; held together until all are found, so that they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(held.getsockname()[1]) for held in sockets]
    for held in sockets:
        held.close()
    return ports


class Node:
    """One broker process, which is also a controller of the quorum; or what else listens on a port and has settings."""

    version = "kafka.version"
    program = "kafka.Kafka"

    def __init__(self, number: int, folder: Path, port: int, settings: dict[str, str]) -> None:
        self.number, self.folder, self.port = number, folder, port
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        self.log = folder / "broker.log"
        self.properties = folder / "server.properties"
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def java(self, *arguments: str) -> list[str]:
        heap = ["-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        # log4j would otherwise look for a file; errors on the console are all a failed start needs.
        return ["java", *heap, "-Dlog4j2.level=WARN", "-cp", f"{jars(self.version)}/*", *arguments]

    def format(self, cluster_id: str) -> None:
        command = self.java("kafka.tools.StorageTool", "format", "--cluster-id", cluster_id)
        done = subprocess.run([*command, "--config", str(self.properties)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoBroker(f"formatting the storage failed: {(done.stdout + done.stderr)[-1000:]}")

    def start(self) -> None:
        with self.log.open("ab") as log:
            # Where the system can, the broker ends with us, also if we are killed.
            leash = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
            words = [*leash, *self.java(self.program, str(self.properties))]
            self.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)

    def wait(self, seconds: float = 240) -> None:
        """Until the broker takes connections."""
        assert self.process is not None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise NoBroker(f"broker {self.number} ended: {self.log.read_text()[-2000:]}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise NoBroker(f"broker {self.number} took no connection in {seconds:.0f} s: {self.log.read_text()[-2000:]}")

    def stop(self, kill: bool = False) -> None:
        """An orderly shutdown, or SIGKILL."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


class OldNode(Node):
    """A broker of the oldest version."""

    version = "oldest.kafka.version"


class ZooKeeper(OldNode):
    """What brokers needed before they were their own controllers."""

    program = "org.apache.zookeeper.server.ZooKeeperServerMain"


class Cluster:
    """One or more nodes of one KRaft cluster on this machine."""

    def __init__(
        self,
        folder: Path,
        count: int = 1,
        secure: dict[str, str] | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        ports = free_ports((2 + len(SECURE)) * count)
        voters = ",".join(f"{i + 1}@127.0.0.1:{ports[count + i]}" for i in range(count))
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports[:count])
        self.secure = {}  # where the first node listens in a secure way, if settings for that are given
        self.nodes = []
        for i in range(count):
            here = f"PLAINTEXT://127.0.0.1:{ports[i]}"
            for name, port in zip(SECURE if secure else (), ports[2 * count + i * len(SECURE) :], strict=False):
                here += f",{name}://127.0.0.1:{port}"
                self.secure.setdefault(name, f"127.0.0.1:{port}")
            own = (
                SETTINGS
                | {
                    "node.id": str(i + 1),
                    "listeners": f"{here},CONTROLLER://127.0.0.1:{ports[count + i]}",
                    "advertised.listeners": here,
                    "controller.quorum.voters": voters,
                    "log.dirs": str(folder / f"node{i + 1}" / "data"),
                    "default.replication.factor": str(count),
                    "min.insync.replicas": str(min(count, 2)),
                    "offsets.topic.replication.factor": str(count),
                    "transaction.state.log.replication.factor": str(count),
                    "transaction.state.log.min.isr": str(min(count, 2)),
                }
                | (secure or {})
                | (settings or {})
            )
            self.nodes.append(Node(i + 1, folder / f"node{i + 1}", ports[i], own))

    def start(self) -> None:
        for node in self.nodes:
            node.format("c3ZlYWQtc3RyZWFtLXRlcw")  # any 16 bytes in base64 do
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop(kill=True)  # the data is thrown away: no need to wait for an orderly end

    def console_consumer(self, topic: str, count: int, timeout_ms: int = 120_000) -> list[str]:
        """Values read by Kafka's own console consumer, read_committed: a witness that shares no code with us."""
        command = self.nodes[0].java("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic)
        command += ["--bootstrap-server", self.bootstrap, "--from-beginning", "--max-messages", str(count)]
        command += ["--isolation-level", "read_committed", "--timeout-ms", str(timeout_ms)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.splitlines()


class OldCluster(Cluster):
    """One broker of the oldest version that is promised, and its ZooKeeper."""

    def __init__(self, folder: Path) -> None:
        port, keeper = free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        place = folder / "zookeeper"
        zookeeper = {"dataDir": str(place), "clientPort": str(keeper), "admin.enableServer": "false"}
        known = ("auto.", "num.", "log.", "offsets.", "transaction.", "group.")
        settings = {name: value for name, value in SETTINGS.items() if name.startswith(known)}
        settings |= {
            "broker.id": "1",
            "zookeeper.connect": f"127.0.0.1:{keeper}",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
        self.nodes = [ZooKeeper(0, place, keeper, zookeeper), OldNode(1, folder / "broker", port, settings)]

    def start(self) -> None:
        for node in self.nodes:
            node.start()
            node.wait()
