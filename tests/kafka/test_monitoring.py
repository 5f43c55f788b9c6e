"""Prometheus itself reads the worker's metrics, answers the dashboard's queries and takes the alert rules."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from broker import free_ports
from monitoring import NoPrometheus, programs, running
from streams import Stream, events, sum_of, until, working
from svead_kafka.metrics import Metrics

HERE = Path(__file__).parent
EXAMPLE = HERE.parent.parent / "examples" / "kafka"
DOCS = HERE.parent.parent / "docs" / "operating.md"


@pytest.fixture(scope="module")
def tools() -> Path:
    """The folder with `prometheus` and `promtool`."""
    try:
        return programs()
    except NoPrometheus as error:
        if os.environ.get("CI"):
            pytest.fail(f"no Prometheus, and CI needs one: {error}", pytrace=False)
        pytest.skip(f"no Prometheus: {error}")


def queries() -> list[str]:
    """All that the dashboard asks for. Where it shows 0 if there is nothing, what it is really about."""
    panels = json.loads((EXAMPLE / "grafana" / "dashboard.json").read_text())["panels"]
    return [target["expr"].removesuffix(" or vector(0)") for panel in panels for target in panel["targets"]]


def names(text: str) -> set[str]:
    """The metrics that a text names, as the registry calls them."""
    return {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in re.findall(r"svead_[a-z_]+", text)}


def known() -> set[str]:
    return {metric.name for metric in Metrics().registry.collect()}


def test_every_query_of_the_dashboard_returns_data(tools: Path, stream: Stream, tmp_path: Path) -> None:
    [port] = free_ports(1)
    config = tmp_path / "prometheus.yml"
    text = (EXAMPLE / "prometheus.yml").read_text()
    assert "worker:9464" in text
    assert "5s" in text
    config.write_text(text.replace("worker:9464", f"127.0.0.1:{port}").replace("5s", "500ms"))
    shutil.copy(EXAMPLE / "alerts.yml", tmp_path)
    options = stream.options(metrics_port=port, snapshot_every=10, feedback=f"{stream.name}-answers")
    missing: list[str] = []
    seeds = itertools.count()
    began = time.time()

    def all_answered() -> bool:
        stream.send([*events(40, seed=next(seeds)), b"bad"])  # latencies need something that is late
        missing[:] = [query for query in queries() if not _are_numbers(prometheus.values(query))]
        return not missing

    with working(options) as worker, running(config) as prometheus:
        worker.metrics.skipped.labels(stream.input, "0", "a test").inc(3)
        until(all_answered, lambda: f"no data for {missing}")
        for name, counter in (("events", worker.metrics.events), ("dead_letters", worker.metrics.dead_letters)):
            query = f"sum(svead_{name}_total)"
            until(lambda query=query, counter=counter: prometheus.values(query) == [sum_of(counter)] > [0])  # type: ignore[misc]
        assert prometheus.values("sum(svead_ready)") == [1.0]
        assert prometheus.values("svead_last_commit_timestamp_seconds") > [began]
        assert prometheus.values("sum(svead_skipped_offsets_total)") == [3.0]
        [group] = prometheus.get("rules")["groups"]
        until(lambda: "SveadSkippedOffsets" in _firing(prometheus.get("alerts")))
    assert {rule["health"] for rule in group["rules"]} <= {"ok", "unknown"}


def _are_numbers(values: list[float]) -> bool:
    return bool(values) and all(map(math.isfinite, values))


def _firing(answer: Any) -> set[str]:
    return {alert["labels"]["alertname"] for alert in answer["alerts"] if alert["state"] == "firing"}


@pytest.mark.parametrize(
    "words",
    [
        ["check", "config", EXAMPLE / "prometheus.yml"],
        ["check", "rules", EXAMPLE / "alerts.yml"],
        ["test", "rules", HERE / "alerts_test.yml"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_promtool_is_content(tools: Path, words: list[Any]) -> None:
    done = subprocess.run([tools / "promtool", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout + done.stderr


def test_the_dashboard_shows_every_metric_and_nothing_else() -> None:
    assert names(" ".join(queries())) == known()


def test_alerts_are_about_metrics_that_exist() -> None:
    assert names((EXAMPLE / "alerts.yml").read_text()) < known()


def test_the_documentation_has_every_metric_and_nothing_else() -> None:
    rows = [line.split("|")[1] for line in DOCS.read_text().splitlines() if line.startswith("| `svead_")]
    assert names(" ".join(rows)) == known()
