"""Parameters: in one place, the same for constructors and checks, and messages that say what is allowed."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from river import anomaly

from svead_stream import SVEAD, ConformalFilter, StreamingSVEAD
from svead_stream.parameters import ALERTS, BATCH, DETECTOR, Parameter, check_alerts, check_detector


def defaults(parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    return {parameter.name: parameter.default for parameter in parameters}


def signature(estimator: type) -> dict[str, Any]:
    return {name: one.default for name, one in inspect.signature(estimator).parameters.items()}


def test_constructors_have_these_parameters_and_defaults() -> None:
    assert signature(StreamingSVEAD) == defaults(DETECTOR)
    alerts = defaults(ALERTS)
    del alerts["top_features"]
    filter_ = signature(ConformalFilter)
    del filter_["detector"]
    assert {"alert_window" if name == "window" else name: value for name, value in filter_.items()} == alerts
    assert defaults(BATCH).items() <= signature(SVEAD).items()


def test_defaults_are_allowed() -> None:
    check_detector()
    check_alerts()
    for parameter in BATCH:
        parameter.check(parameter.default)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("n_partitions", 1, "a whole number from 2 to 100000"),
        ("n_partitions", 24.0, "a whole number from 2 to 100000"),
        ("n_anchors", True, "a whole number from 1 to 65536"),
        ("n_anchors", "8", "a whole number from 1 to 65536"),
        ("normal_after", 0, "a whole number from 1 to "),
        ("max_features", 2**24 + 1, "a whole number from 1 to 16777216"),
        ("seed", -1, "a whole number from 0 to "),
        ("memory", "long", "None or a number"),
        ("memory", float("nan"), "None or a number"),
        ("memory", float("inf"), "None or a number"),
        ("memory", True, "None or a number"),
        ("memory", 10**400, "None or a number"),
        ("memory", 255, r"None or a number of events, at least normal_after \(256\)"),
        ("scaling", "minmax", "one of 'none', 'std', 'iqr', 'range', 'log', 'mixed'"),
        ("scaling", np.array(["std", "iqr"]), "one of 'none', 'std', 'iqr', 'range', 'log', 'mixed'"),
        ("n_partitions", np.zeros((9, 9)), "a whole number from 2 to 100000"),  # the data, given to the constructor
        ("n_anchors", np.array(5), "a whole number from 1 to 65536"),
    ],
)
def test_a_wrong_parameter_of_the_detector_is_named_with_what_is_allowed(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=.*: it must be {allowed}"):
        check_detector(**{name: value})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"alert_rate": 0}, "alert_rate=0: it must be a number between 0 and 1"),
        ({"alert_rate": 1.0}, "alert_rate=1.0: it must be a number between 0 and 1"),
        ({"alert_rate": None}, "alert_rate=None"),
        ({"alert_window": 0}, "alert_window=0: it must be a whole number from 1 to 10000000"),
        ({"alert_window": 500.5}, "alert_window=500.5: it must be a whole number"),
        ({"alert_window": 98}, "a window of 98 is too short to tell events of rate 0.01: give at least 99"),
        (
            {"hold_off": np.timedelta64(9, "ns")},
            "hold_off=.* is neither a number of events nor",
        ),
        ({"protect": "yes"}, "protect='yes': it must be one of False, True"),
        ({"top_features": -1}, "top_features=-1: it must be a whole number of 0 or more"),
        ({"alert_ratio": 0.1}, "alert_ratio is no parameter: there are alert_rate, incident_rate, hold_off"),
    ],
)
def test_a_wrong_parameter_of_the_alerts_is_named_with_what_is_allowed(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_alerts(**values)


def test_numbers_of_numpy_are_numbers() -> None:
    check_detector(n_anchors=np.int32(4), memory=np.float32(300), seed=np.uint64(3))
    check_alerts(alert_rate=np.float64(0.1), alert_window=np.int64(100), top_features=np.int8(0))


def test_numbers_of_short_types_give_the_same_model_and_do_not_overflow() -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    one = StreamingSVEAD(np.uint8(8), np.uint8(16), np.int16(40), np.float16(900), seed=1, answer_memory=np.float16(70))
    other = StreamingSVEAD(8, 16, 40, 900, seed=1, answer_memory=70)
    for model in (one, other):
        model.learn_many(X)
        model.feedback_one({0: 9.0}, True)
    assert one.score_many(X).tolist() == other.score_many(X).tolist()
    assert ConformalFilter(one, np.float16(0.05), window=np.int8(127)).capacity == 127


@pytest.mark.parametrize(
    "values",
    [
        {"n_partitions": 2, "n_anchors": 1, "normal_after": 1, "memory": 1, "scaling": "none", "max_features": 1},
        {"normal_after": 300, "memory": None, "scaling": "log", "seed": 2**128},
    ],
)
def test_what_the_check_allows_the_detector_takes(values: dict[str, Any]) -> None:
    check_detector(**values)
    StreamingSVEAD(**values)


def test_the_shortest_window_that_the_check_allows_the_filter_takes() -> None:
    check_alerts(alert_rate=0.001, alert_window=999)
    ConformalFilter(anomaly.HalfSpaceTrees(), alert_rate=0.001, window=999)


def test_the_table_is_read_without_loading_anything_heavy() -> None:
    code = "import sys, svead_stream.parameters; print({'numpy', 'numba', 'river', 'click'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"
