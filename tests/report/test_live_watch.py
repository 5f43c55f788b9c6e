"""The live page in a browser: of a run in this process, and of a file that grows."""

from __future__ import annotations

import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import HOSTILE, recorded, text, texts
from selenium.webdriver.common.by import By

from svead_stream.cli.serve import live_page

TOKEN = "correct-horse-battery"
PATIENCE = 120.0


def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition that surely comes."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


@pytest.fixture
def window(browser: Any) -> Iterator[Any]:
    """The browser, which asks nobody any more when a test is over."""
    yield browser
    browser.get("about:blank")
    browser.get_log("browser")


def visit(browser: Any, address: str) -> None:
    browser.get(address)
    until(lambda: browser.execute_script("return document.documentElement.dataset.ready") == "true")


def state(browser: Any) -> str:
    return text(browser, "#live-state")


def rows(browser: Any) -> int:
    [figure] = [one for one in texts(browser, ".figure") if re.fullmatch(r"rows?(,.*)?", one.split("\n")[1])]
    return int(figure.split("\n")[0].replace(",", ""))


def ends(browser: Any) -> list[str]:
    return texts(browser, "#incidents tr.row td[data-name='End']")


class Page:
    """A page of a run that goes on in a thread: of 600 rows, and those that are asked for."""

    def __init__(self, where: str = "0", token: str | None = None) -> None:
        self._recorder = recorded(n=600, long=20)
        self._more: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._server = live_page(self._data, where, token)
        found = re.search(r"http://\S*?:(\d+)/", self._server.told)
        assert found is not None
        self.address, self.port = found[0], found[1]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _data(self) -> dict[str, Any]:
        about = {"title": "x", "seconds": 1.0, "written": "today", "measured": None, "settings": {}}
        return self._recorder.to_json() | about

    def add(self, n: int) -> None:
        self._more.put(n)

    def _run(self) -> None:
        while not self._ended.is_set():
            with suppress(queue.Empty):
                n = self._more.get(timeout=0.05)
                self._recorder.add_rows(np.ones(n), np.zeros(n, dtype=bool), np.full(n, 2.0))
            self._server.update(changed=True)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(PATIENCE)
        self._server.close()


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page()
    yield page
    page.close()


def test_a_link_with_the_token_opens_the_page_and_the_token_is_gone(window: Any, tmp_path: Path) -> None:
    page = Page("127.0.0.1:0", TOKEN)
    try:
        elsewhere = tmp_path / "elsewhere.html"  # a link of another site
        elsewhere.write_text(f"<!doctype html><a href='{page.address}?token={TOKEN}'>look</a>")
        window.get(elsewhere.as_uri())
        window.find_element(By.TAG_NAME, "a").click()
        until(lambda: window.find_elements(By.ID, "live-state"))
        assert window.current_url == page.address
        assert window.execute_script("return document.cookie") == ""
        page.add(7)
        until(lambda: rows(window) == 607)
    finally:
        page.close()


def test_a_page_that_is_paused_stays_as_it_is(window: Any, page: Page) -> None:
    visit(window, page.address)
    until(lambda: state(window) == "Live")
    window.find_element(By.ID, "live-pause").click()
    assert state(window) == "Paused"
    page.add(7)
    turn = window.execute_script("return live.turn")
    window.execute_script("document.dispatchEvent(new Event('visibilitychange'))")
    assert window.execute_script("return live.turn") == turn  # nothing is asked for
    assert rows(window) == 600
    window.find_element(By.ID, "live-pause").click()
    until(lambda: rows(window) == 607)
    assert state(window) == "Live"
    assert window.get_log("browser") == []


def test_a_connection_that_is_lost_is_said_and_taken_up_again(window: Any, page: Page) -> None:
    visit(window, page.address)
    page.close()
    until(lambda: state(window) == "Connection lost, trying again")
    again = Page(page.port)
    try:
        again.add(50)
        until(lambda: state(window) == "Live" and rows(window) == 650)
    finally:
        again.close()


# of a file


FAULT = range(900, 920)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """A header of hostile names, and 1,000 rows, one a minute, with a fault of 20 rows."""
    X = np.round(np.random.default_rng(8).normal([50.0, 7.0], [1.0, 0.2], (1_000, 2)), 3)
    X[FAULT, 0] += 12
    names = ['"' + name.replace('"', '""') + '"' for name in HOSTILE[:2]]
    return [
        f"when,{','.join(names)}\n",
        *(f"{1_772_323_200 + 60 * i},{a},{b}\n" for i, (a, b) in enumerate(X.tolist())),
    ]


def test_a_file_that_grows_is_seen_to_grow(window: Any, lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "growing.csv"
    path.write_text("".join(lines[:911]))  # the fault goes on
    command = f"from svead_stream.cli import main; main(['watch', '--serve', '0', {str(path)!r}])"
    process = subprocess.Popen([sys.executable, "-c", command], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())
        assert found is not None
        visit(window, found[0])
        until(lambda: rows(window) == 910)
        assert ends(window)[0] == "open"  # the newest is first
        window.execute_script("document.querySelector('#incidents tr.row').click()")  # opens it, and zooms to it
        seen = texts(window, "#view")
        with path.open("a") as file:
            file.write("".join(lines[911:]))
        until(lambda: rows(window) == 1_000)
        assert "open" not in ends(window)
        assert texts(window, "#view") == seen
        assert texts(window, "#incidents tr.open td[data-name='End']") == ends(window)[:1]
        assert HOSTILE[0] in text(window, "body")
        assert window.execute_script("return window.hacked") is None
        assert window.get_log("browser") == []
        process.send_signal(signal.SIGTERM)
        until(lambda: state(window) == "Connection lost, trying again")
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()
