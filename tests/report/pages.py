"""Runs to make reports of, and how a test reads a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from selenium.webdriver.support.ui import WebDriverWait

from svead_stream.record import Incident
from svead_stream.report import Alert, Recorder, render

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "{{script}}",
    "'\"><svg onload=alert(1)>",
    "{{data}}",
    "\u2028 \U0001f4a5 \x00 ]]> <!--",
]
MARCH = 1_709_251_200.0  # 2024-03-01 00:00, in seconds since 1970


def recorded(
    n: int = 3_000,
    names: list[str] | None = None,
    every: int = 150,
    times: np.ndarray | None = None,
    burn_in: int = 0,
    long: int = 0,
) -> Recorder:
    """A run with an alert every so many rows; `long` rows from each on are an incident, of which the last is open."""
    names = names or ["heat", "load", "speed"]
    rng = np.random.default_rng(1)
    recorder = Recorder()
    scores = rng.gamma(9, 0.1, n)
    alerts = (np.arange(n) % every == every - 1) & (np.arange(n) >= burn_in)
    scores[alerts] += 2.5
    values = {name: rng.normal(10 * k, 1, n) for k, name in enumerate(names)}
    for column in values.values():
        column[alerts] += 6
    values[names[-1]][n // 3 : n // 2] = np.nan
    for start in range(0, n, 500):
        part = slice(start, start + 500)
        some = len(scores[part])
        recorder.add_rows(
            scores[part],
            alerts[part],
            np.full(some, 2.0),
            alerts[part].astype(float),
            None if times is None else times[part],
            min(max(burn_in - start, 0), some),
            {name: column[part] for name, column in values.items()},
        )
    rows = np.flatnonzero(alerts).tolist()
    shares = dict(zip(names, [0.6, 0.3, 0.1], strict=False))
    for k, row in enumerate(rows):
        recorder.add_shares(shares)
        features = [{"name": n, "value": 9.0 + k, "share": s, "usual": [1.0, 2.0, 3.0]} for n, s in shares.items()]
        features[-1] |= {"value": None, "usual": None}
        context = {"machine": names[k % len(names)], "note": f"note {k}"}
        alert = Alert(row + 1, f"x.csv, line {row + 2}", scores[row], 0.001, 2.0, k % 2, context, features)
        alert.time = None if times is None else times[row]
        alert.incident = k + 1 if long else None
        alert.values = {feature["name"]: feature["value"] for feature in features[:-1]}
        recorder.add_alert(alert)
        if long:
            state = "open" if k == len(rows) - 1 else "closed"
            last = min(row + long, n)
            start, end = (None, None) if times is None else (times[row], times[last - 1])
            incident = Incident(k + 1, state, row + 1, last, start, end, 1, scores[row], 0.001, dict(shares))
            recorder.add_incident(incident, row + 1, f"x.csv, line {row + 2}", k % 2 == 1)
    return recorder


def page(recorder: Recorder, **change: Any) -> str:
    """The report of a run."""
    data = recorder.to_json() | {
        "title": "machine.csv",
        "seconds": 1.5,
        "written": "2026-03-01 12:00",
        "measured": {"roc_auc": 0.97, "average_precision": 0.4},
        "settings": {"alert_rate": 0.01, "half_life": None},
    }
    return render(data | change)


def wait(browser: Any, condition: Callable[[], bool]) -> None:
    """Until it holds."""
    WebDriverWait(browser, 30, 0.05).until(lambda _: condition())


def labels(browser: Any) -> list[str]:
    """What is written along the axis of the charts."""
    return list(
        browser.execute_script(
            "const most = mostTicks(charts[0].plot);"
            "return textsOfTicks(ticksBetween(view.min, view.max, most), view.min, view.max, most)"
        )
    )


def seen(browser: Any) -> tuple[float, float]:
    """The part of the axis that the charts show, which is the same for all."""
    parts = browser.execute_script("return charts.map(({ plot: { scales: { x } } }) => [x.min, x.max])")
    assert all(part == parts[0] for part in parts)
    return tuple(parts[0])


def texts(browser: Any, selector: str) -> list[str]:
    """What is written in all elements of a kind, at one moment: a page may be drawn anew while it is read."""
    script = "return [...document.querySelectorAll(arguments[0])].map((element) => element.innerText)"
    return list(browser.execute_script(script, selector))


def text(browser: Any, selector: str) -> str:
    """What is written in the first element of a kind."""
    return texts(browser, selector)[0]
