"""The commands as a user types them: send, the worker, tail; and the files of the example."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import orjson
from broker import Cluster, free_ports
from streams import PATIENCE, Stream, client_file, command, events, spawn, sum_of, until, work, working

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "kafka"
SECRET = "correct-horse-battery"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "svead_kafka", *words], capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_the_walk_through_of_the_example_works(stream: Stream, tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, EXAMPLE / "make_events.py", "3000"], capture_output=True, check=True)
    file = tmp_path / "events.jsonl"
    file.write_bytes(made.stdout)
    bootstrap = ["--bootstrap", stream.bootstrap]
    sent = run("send", str(file), "--topic", stream.input, "--key", "machine", *bootstrap)
    assert (sent.returncode, sent.stderr.splitlines()[-1]) == (0, f"sent 3000 events to {stream.input}")

    options = stream.options()
    secret = client_file(tmp_path)
    secret.write_text(secret.read_text() + f"sasl.password={SECRET}\n")
    log = tmp_path / "log"
    process = spawn(command(options, "--ignore", "machine,step", "--client-config", str(secret)), log)
    try:
        stream.wait_committed(options, 3000)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0, log.read_text()
    finally:
        process.kill()
    said = log.read_text()
    for part in (f"reading {stream.input} (4 partitions)", f"writing scored events to {options.output}",
                 f"incidents to {options.incidents} (4 partitions)",
                 "features: all numbers and booleans, not machine, step", f"restored from {options.state}",
                 "stopped; everything scored is committed"):  # fmt: skip
        assert part in said
    assert SECRET not in said

    broken = [line for line in made.stdout.splitlines() if not line.endswith(b"}")]
    assert sorted(one.value for one in stream.read(options.dead_letters or "")) == sorted(broken)
    scored = list(stream.scored(options).values())
    assert len(scored) == 3000 - len(broken)
    alerts = [value for value in scored if value["alert"]]
    assert "heat.motor" in {one["feature"] for value in alerts for one in value["top_features"]}

    shown = run(
        "tail", "--topic", options.output, "--alerts", "--from-beginning", "--count", str(len(alerts)), *bootstrap
    )
    lines = shown.stdout.splitlines()
    assert shown.returncode == 0
    assert len(lines) == len(alerts)
    assert all("ALERT" in line for line in lines)

    told = [orjson.loads(value) for _, _, value, _ in stream.told(options)]
    incidents = ["tail", "--topic", options.incidents or "", "--from-beginning", "--count", str(len(told))]
    lines = run(*incidents, *bootstrap).stdout.splitlines()
    assert len(lines) == len(told) > 0
    for value in told:
        assert any(f"incident {value['incident']} {value['state']}" in line for line in lines)


def test_an_answer_is_one_command(stream: Stream) -> None:
    options = stream.options(feedback=f"{stream.name}-answers")
    stream.create({options.feedback: {"num_partitions": 2}})
    stream.send(events(1200))
    work(stream, options, 1200)
    words = ["answer", "--topic", options.feedback or "", "--bootstrap", stream.bootstrap]
    done = run(*words, "--source", f"{stream.input}/1/250", "--anomaly", "--key", "k")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        0, f"told {options.feedback} that {stream.input}/1/250 was an anomaly"
    )  # fmt: skip
    assert run(*words, "--source", f"{stream.input}/2/7", "--false-alarm").returncode == 0
    [keyed] = [record for record in stream.read(options.feedback or "") if record.key == b"k"]
    source = {"topic": stream.input, "partition": 1, "offset": 250}
    assert orjson.loads(keyed.value) == {"is_anomaly": True, "source": source}
    with working(options) as worker:
        until(lambda: sum_of(worker.metrics.answers) == 2)

    wrong = run(*words, "--source", "orders/1", "--anomaly")
    assert (wrong.returncode, wrong.stderr.strip()) == (
        1, "svead-stream: --source must be topic/partition/offset, such as orders/0/1234, not 'orders/1'"
    )  # fmt: skip
    for flags in ([], ["--anomaly", "--false-alarm"]):
        assert run(*words, "--source", "orders/1/2", *flags).returncode == 2
    keys = {record.key for record in stream.read(options.feedback or "")}
    assert keys == {b"k", f"{stream.input}/2/7".encode()}  # two answers to one event keep their order


def test_a_csv_becomes_json_events_with_numbers(stream: Stream, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    client = tmp_path / "client.properties"
    client.write_text("linger.ms=7\n")
    file.write_text("id,temp,on,note,empty\n7,1.5,true,hot,\n8,-2,false,,\n")
    assert (
        run(
            "send", str(file), "--topic", stream.input, "--bootstrap", stream.bootstrap, "--rate", "100",
            "--client-config", str(client),
        ).returncode
        == 0
    )  # fmt: skip
    values = [orjson.loads(record.value) for record in stream.read(stream.input)]
    assert sorted(values, key=lambda value: value["id"]) == [
        {"id": 7, "temp": 1.5, "on": True, "note": "hot", "empty": None},
        {"id": 8, "temp": -2, "on": False, "note": None, "empty": None},
    ]


def test_a_mistake_is_told_in_one_line() -> None:
    done = run("--output", "out")
    assert done.returncode == 1
    assert done.stderr.strip() == "svead-stream: the worker needs an input topic: --input EVENTS --output SCORED"


def test_a_cluster_out_of_reach_ends_with_the_code_that_asks_for_a_restart() -> None:
    [port] = free_ports(1)
    words = ["--bootstrap", f"127.0.0.1:{port}", "--input", "in", "--output", "out", "--max-retries", "1"]
    done = run(*words)
    assert done.returncode == 75
    assert "trying again in" in done.stderr
    assert "2 failures in a row" in done.stderr


def test_a_commit_that_hangs_ends_the_process_and_the_next_one_finishes(
    stream: Stream, cluster: Cluster, tmp_path: Path
) -> None:
    stream.send(events(3000))
    quiet, options = stream.options("quiet"), stream.options("hung", max_batch=50)
    log = tmp_path / "log"
    words = command(options, "--client-config", str(client_file(tmp_path)), "--stall-timeout", "20")
    process = spawn(words, log)
    broker = cluster.nodes[0].process
    assert broker is not None
    try:
        stream.wait_committed(options, 300)
        broker.send_signal(signal.SIGSTOP)  # it takes requests and never answers
        assert process.wait(timeout=PATIENCE) == 76, log.read_text()
    finally:
        broker.send_signal(signal.SIGCONT)
        process.kill()
    assert "no progress for" in log.read_text()
    work(stream, options, 3000)
    work(stream, quiet, 3000)
    assert stream.scored(options) == stream.scored(quiet)
