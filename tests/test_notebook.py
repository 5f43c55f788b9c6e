"""Models and explanations in a notebook, and at a prompt."""

from __future__ import annotations

import copy
import json
import pickle
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from river import anomaly

from svead_stream import ConformalFilter, StreamingSVEAD
from svead_stream.record import Explanation

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def model() -> ConformalFilter:
    judge = ConformalFilter(StreamingSVEAD(n_anchors=4, seed=1), alert_rate=0.02)
    judge.judge_many(np.random.default_rng(0).normal(size=(600, 3)), ["heat", HOSTILE, ("t", 1)])
    judge.judge_one({"heat": 90.0, HOSTILE: None, ("t", 1): -0.25})
    return judge


class Page(HTMLParser):
    """The texts of a page, and its tags, which have to be closed in their order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert all(name == "style" for name, _ in attrs)
        self.tags.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def html(shown: Any) -> Page:
    page = Page(shown._repr_html_())
    assert page.tags <= {"div", "b", "table", "tr", "td", "span"}
    return page


def test_a_model_is_one_line_at_a_prompt(model: ConformalFilter) -> None:
    assert repr(StreamingSVEAD()) == "StreamingSVEAD(): 0 events, 0 features"
    detector = "StreamingSVEAD(n_anchors=4, seed=1): 601 events, 3 features"
    assert repr(model.detector) == detector
    counts = f"601 events, {model.n_alerts_} alerts, {model.n_incidents_} incidents"
    assert repr(model) == f"ConformalFilter(alert_rate=0.02): {counts}; {detector}"
    foreign = repr(ConformalFilter(anomaly.HalfSpaceTrees(), protect=True))
    assert foreign.startswith("ConformalFilter(protect=True): 0 events, 0 alerts, 0 incidents; HalfSpaceTrees (")
    assert "\n" not in foreign


def test_a_notebook_shows_what_a_model_knows(model: ConformalFilter) -> None:
    texts = html(model).texts
    assert texts[:3] == ["ConformalFilter(alert_rate=0.02)", "events", "601"]
    assert "StreamingSVEAD(n_anchors=4, seed=1)" in texts
    assert f"{HOSTILE}, heat, ('t', 1)" in texts
    assert texts[texts.index("missing values") + 1] == "1"
    assert texts[texts.index("open") + 1] == f"incident {model.n_incidents_}, 1 alert"
    fresh = html(ConformalFilter(anomaly.HalfSpaceTrees())).texts
    assert fresh[fresh.index("alert above") + 1] == "nothing yet"
    assert fresh[fresh.index("detector") + 1].startswith("HalfSpaceTrees")
    assert "none yet" in html(StreamingSVEAD()).texts


def test_a_notebook_draws_an_explanation(model: ConformalFilter) -> None:
    shares = model.detector.explain_one({"heat": 90.0, HOSTILE: 0.5, ("t", 1): None})
    texts = html(shares).texts
    assert texts[:5] == ["feature", "value", "share", "heat", "90"]
    assert texts[5] == f"{shares['heat']:.1%}"
    assert HOSTILE in texts
    assert model.open_incident is not None
    assert html(model.open_incident.reasons).texts[:3] == ["feature", "share", "heat"]
    assert "nothing is known" in " ".join(html(StreamingSVEAD().explain_one({"a": 1.0})).texts)
    many = html(Explanation({f"f{i}" * 50: 0.02 for i in range(50)})).texts
    assert "and 30 more" in many
    assert max(map(len, many)) == 60


def test_an_explanation_is_a_dict(model: ConformalFilter) -> None:
    shares = model.detector.explain_one({"heat": 90.0, HOSTILE: 0.5})
    assert isinstance(shares, dict)
    assert shares == dict(shares)
    assert repr(shares) == repr(dict(shares))
    assert json.loads(json.dumps(shares)) == shares
    assert shares.event == {"heat": 90.0, HOSTILE: 0.5}
    for again in (copy.deepcopy(shares), pickle.loads(pickle.dumps(shares))):
        assert (again, again.event) == (shares, shares.event)
    loop = model.judge_one({"heat": 90.0}, learn=False).reasons
    [batch] = model.judge_many([{"heat": 90.0}], learn=False).reasons.values()
    assert loop == batch
    assert loop.event == batch.event == {"heat": 90.0}  # type: ignore[union-attr, attr-defined]
