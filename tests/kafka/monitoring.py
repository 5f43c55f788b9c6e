"""Prometheus for the tests, from the system's packages: unpacked into ``.cache``, not installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

from broker import ROOT, free_ports
from fetching import one_at_a_time
from streams import PATIENCE, until


class NoPrometheus(Exception):
    """The machine has no Prometheus and no way to get it; the message says what is missing."""


def programs() -> Path:
    """The folder with `prometheus` and `promtool`."""
    installed = shutil.which("promtool")
    if installed and shutil.which("prometheus"):
        return Path(installed).parent
    folder = Path(os.environ.get("SVEAD_TEST_CACHE", ROOT / ".cache")).absolute() / "prometheus"
    with one_at_a_time():
        if not (folder / "complete").exists():
            _fetch(folder)
    return folder / "usr" / "bin"


def _fetch(folder: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise NoPrometheus("neither prometheus nor apt-get is installed")
    folder.mkdir(parents=True, exist_ok=True)
    if not _download(folder):
        # A fresh container knows no packages yet. Elsewhere only root may ask for the list.
        subprocess.run(["apt-get", "update"], capture_output=True, check=False, timeout=600)
        if not _download(folder):
            raise NoPrometheus("apt-get does not bring it: apt-get install prometheus")
    *_, package = sorted(folder.glob("prometheus_*.deb"))
    subprocess.run(["dpkg", "-x", package, folder], check=True, timeout=600)
    package.unlink()
    (folder / "complete").touch()


def _download(folder: Path) -> bool:
    command = ["apt-get", "download", "prometheus"]
    return not subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=600).returncode


class Prometheus:
    """One that runs."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **parameters: str) -> Any:
        """What the interface answers; None while it does not yet."""
        words = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{words}", timeout=PATIENCE) as answer:
                return json.load(answer)["data"]
        except (URLError, ConnectionError):
            return None

    def values(self, query: str) -> list[float]:
        """The values that a query gives now."""
        answer = self.get("query", query=query) or {"result": []}
        return [float(one["value"][1]) for one in answer["result"]]


@contextmanager
def running(config: Path) -> Iterator[Prometheus]:
    """A Prometheus with this configuration; its data is beside it."""
    [port] = free_ports(1)
    log = config.with_suffix(".log")
    words = [programs() / "prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}"]
    with log.open("wb") as out:
        process = subprocess.Popen([*words, f"--storage.tsdb.path={config.parent / 'data'}"], stdout=out, stderr=out)
    try:
        prometheus = Prometheus(port)
        until(lambda: prometheus.get("targets") is not None or process.poll() is not None, log.read_text)
        assert process.poll() is None, log.read_text()
        yield prometheus
    finally:
        process.kill()
        process.wait()
