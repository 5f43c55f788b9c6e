"""The parameters of the detectors and of the alerts: their defaults, what they may be, and what help says of them.

Here and nowhere else; constructors, commands and the Kafka connector take it from here. Nothing heavy is imported, so
that --help shows at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, get_args

from svead_stream.errors import brief
from svead_stream.spans import Span, rate, span

# To be raised when the same parameters and events give other scores or alerts than before, or when models that were
# saved before cannot be read. Where a model goes on for months, as in Kafka's topics, it tells whether it may.
MODEL_VERSION = 2  # models of release 0.1 had one memory


@dataclass(frozen=True)
class Parameter:
    """A parameter: a whole number from low to high, a number between the two, one of some choices, or a span.

    Parameters
    ----------
    name
        As constructors spell it.
    kind
        `int`, `float`, `bool` or `str`.
    default
        Its value where none is given.
    help
        What it does, in a line.
    low, high
        What a number must not leave. A whole number may be equal to them, another may not.
    choices
        All that it can be, if it is no number.
    optional
        Whether it can be None.
    parse
        What reads it, if it is given in events or in time.
    in_events
        Whether it is a number of events, for which commands that know the time of events take a duration, too.
    """

    name: str
    kind: type
    default: Any
    help: str
    low: float = 0
    high: float = math.inf
    choices: tuple[Any, ...] = ()
    optional: bool = False
    parse: Callable[[Any], Span] | None = None
    in_events: bool = False

    def check(self, value: Any) -> None:
        """Raise a ValueError that says what is allowed, unless the value is."""
        if value is None and self.optional:
            return
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if self.parse is not None:
            self._check_span(value, self.parse)
        elif self.choices:
            if not isinstance(value, Hashable) or value not in self.choices:
                raise ValueError(f"{self.name}={brief(value)}: it must be one of {', '.join(map(repr, self.choices))}")
        elif self.kind is int:
            check_int(self.name, value, self.low, self.high)
        elif not (is_number and self.low < _as_float(value) < self.high):
            none = "None or " if self.optional else ""
            allowed = f"{none}a number between {self.low} and {self.high}"
            raise ValueError(f"{self.name}={brief(value)}: it must be {allowed}")

    def _check_span(self, value: Any, parse: Callable[[Any], Span]) -> None:
        try:
            amount, in_time = parse(value)
        except ValueError as error:
            raise ValueError(f"{self.name}={value!r}: {error}") from None
        if not self.low < amount < (math.inf if in_time else self.high):
            raise ValueError(f"{self.name}={value!r}: it must be more than {self.low:g} and less than {self.high:g}")


def _as_float(value: Real) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_int(name: str, value: Any, low: float, high: float = math.inf) -> None:
    """Raise a ValueError unless the value is a whole number from low to high; NumPy's are, True and False are not."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not low <= int(value) <= high:
        allowed = f"of {low} or more" if high == math.inf else f"from {low} to {high}"
        raise ValueError(f"{name}={brief(value)}: it must be a whole number {allowed}")


SEED = Parameter("seed", int, None, "Makes scores reproducible.", 0, 2**128, optional=True)

Scaling = Literal["none", "std", "iqr", "range", "log", "mixed"]
BatchScaling = Literal["none", "std", "iqr", "range"]

_COMPARABLE = "How features are made comparable."
SCALING = Parameter("scaling", str, "mixed", _COMPARABLE, choices=get_args(Scaling))

# of StreamingSVEAD
DETECTOR = (
    Parameter("n_partitions", int, 24, "Partitions of the ensemble.", 2, 100_000),
    Parameter("n_anchors", int, 16, "Anchors of each partition.", 1, 65_536),
    Parameter(
        "normal_after", int, 256, "Events that something new lasts before it is normal.", 1, 2**48, in_events=True
    ),
    Parameter(
        "memory",
        float,
        20_000,
        "Events in which half of what was normal is forgotten, or none.",
        0,
        optional=True,
        in_events=True,
    ),
    SCALING,
    Parameter("max_features", int, 4096, "Most features that the model takes.", 1, 2**24),
    Parameter(
        "answer_memory",
        float,
        None,
        "Events in which answers lose half of their influence, or none.",
        0,
        optional=True,
        in_events=True,
    ),
    SEED,
)

ALERT_RATE = Parameter("alert_rate", float, 0.01, "Share of events to alert on.", 0, 1)
ALERT_WINDOW = Parameter(
    "alert_window",
    int,
    None,
    "Recent scores to rank among; by default as many as the alert rate needs.",
    1,
    10_000_000,
    optional=True,
)
_ALERTS_IN_WINDOW = 5  # at least, in a window that follows from the alert rate
INCIDENT_RATE = Parameter(
    "incident_rate",
    str,
    None,
    "Incidents to tell of, as a share of the events or in time (5/day); by default half of the alert rate.",
    0,
    1,
    optional=True,
    parse=rate,
)
HOLD_OFF = Parameter(
    "hold_off",
    str,
    None,
    "Events or time (15m) without alerts after which an incident is over; by default it follows from the rates.",
    0,
    optional=True,
    parse=span,
)
BURN_IN = Parameter(
    "burn_in",
    str,
    256,
    "Events, or time (1d), that are learned without alerts at first.",
    -1,
    parse=span,
)
PROTECT = Parameter("protect", bool, False, "Keep alerts from being learned.", choices=(False, True))
TOP_FEATURES = Parameter("top_features", int, 3, "Features that an alert names.")

# of ConformalFilter, whose `window` is the alert window, and of what is told of an alert
ALERTS = (ALERT_RATE, INCIDENT_RATE, HOLD_OFF, BURN_IN, ALERT_WINDOW, PROTECT, TOP_FEATURES)

BATCH_SCALING = Parameter("scaling", str, "none", _COMPARABLE, choices=get_args(BatchScaling))

# of SVEAD, as far as commands have them
BATCH = (
    Parameter("n_partitions", int, 100, "Partitions of the ensemble.", 1, 100_000),
    Parameter("n_anchors", int, 16, "Anchors of each partition.", 1, 65_536),
    BATCH_SCALING,
)


def check_detector(**values: Any) -> None:
    """Raise a ValueError if a StreamingSVEAD with these parameters, and defaults for the others, cannot be."""
    every = _checked(DETECTOR, values)
    memory, normal_after = every["memory"], every["normal_after"]
    if memory is not None and memory < normal_after:
        raise ValueError(
            f"memory={memory!r}: it must be None or a number of events, at least normal_after ({normal_after})"
        )


def check_alerts(**values: Any) -> None:
    """Raise a ValueError if alerts with these parameters, and defaults for the others, cannot be."""
    every = _checked(ALERTS, values)
    window, rate = every["alert_window"], float(every["alert_rate"])
    if window is not None and (int(window) + 1) * rate < 1:
        least = math.ceil(1 / rate) - 1
        raise ValueError(f"a window of {window} is too short to tell events of rate {rate}: give at least {least}")
    if window is None and rate * ALERT_WINDOW.high < _ALERTS_IN_WINDOW:
        least_rate = _ALERTS_IN_WINDOW / ALERT_WINDOW.high
        raise ValueError(f"alert_rate={rate!r}: it is too small to be held, give at least {least_rate:g}")


def values_of(detector: Any) -> dict[str, Any]:
    """The parameters of a StreamingSVEAD, by name."""
    return {parameter.name: getattr(detector, parameter.name) for parameter in DETECTOR}


def _checked(parameters: tuple[Parameter, ...], values: Mapping[str, Any]) -> dict[str, Any]:
    """All values, defaults too, each checked by itself."""
    every = {parameter.name: parameter.default for parameter in parameters}
    unknown = sorted(values.keys() - every.keys())
    if unknown:
        raise ValueError(f"{unknown[0]} is no parameter: there are {', '.join(every)}")
    every |= values
    for parameter in parameters:
        parameter.check(every[parameter.name])
    return every
