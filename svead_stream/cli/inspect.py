"""`svead-stream inspect`: what a model file holds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from svead_stream.cli.words import counted


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def inspect(model: str, as_json: bool) -> None:
    """Show what the model file MODEL is: parameters, features, events and incidents seen, where its time stands."""
    from svead_stream import load

    facts = describe(load(model))
    facts = {"file": model, "bytes": Path(model).stat().st_size, **facts}
    if as_json:
        click.echo(json.dumps(facts))
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {_IN_WORDS.get(name, _shown)(value)}")


def describe(model: Any) -> dict[str, Any]:
    """The facts about a model, whichever kind it is."""
    from svead_stream.judging import ConformalFilter
    from svead_stream.parameters import TOP_FEATURES, values_of
    from svead_stream.streaming import StreamingSVEAD

    facts: dict[str, Any] = {"kind": type(model).__name__}
    if isinstance(model, ConformalFilter):
        facts |= {
            "alert_rate": model.alert_rate,
            "incident_rate": model.incident_rate,
            "hold_off": model.hold_off,
            "burn_in": model.burn_in,
            "alert_window": model.capacity,
            "protect": model.protect,
            "burns_in": model.burns_in,
            "alerts": model.n_alerts_,
            "incidents": model.n_incidents_,
            "open_incident": None if model.open_incident is None else model.open_incident.record(TOP_FEATURES.default),
            "threshold": model.threshold if math.isfinite(model.threshold) else None,
            "clock": _clock(model.clock_),
        }
        model = model.detector
        facts["detector"] = type(model).__name__
    if isinstance(model, StreamingSVEAD):
        facts |= {
            "parameters": values_of(model),
            "events_seen": model.n_seen_,
            "missing_values": model.n_missing_,
            "answers": model.n_answers_,
            "features": [str(name) for name in model.feature_names_],
        }
    else:
        facts["parameters"] = model.get_params()
    return facts


def _clock(clock: Any) -> dict[str, Any] | None:
    """Where the time stands, and what was odd about it; None if no event had a time."""
    from svead_stream.clock import shown

    if math.isnan(clock.latest) and not clock.n_missing:
        return None
    return {
        "latest": shown(clock.latest),
        "missing": clock.n_missing,
        "going_back": clock.n_backward,
        "same_as_before": clock.n_duplicate,
    }


def _open_in_words(incident: dict[str, Any] | None) -> str:
    if incident is None:
        return "none"
    since = f"event {incident['first']:,}" if incident["start"] is None else incident["start"]
    return f"{incident['incident']:,}, since {since}, {counted(incident['alerts'], 'alert')}"


def _clock_in_words(clock: dict[str, Any] | None) -> str:
    if clock is None:
        return "none: no event had a time"
    odd = [f"{n:,} {name.replace('_', ' ')}" for name, n in clock.items() if name != "latest" and n]
    return ", ".join([f"at {clock['latest']}", *odd])


def _default_in_words(value: Any) -> str:
    return "by default" if value is None else _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, list):
        more = f" and {len(value) - 20} more" if len(value) > 20 else ""
        return f"{len(value)}: {', '.join(value[:20])}{more}"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_IN_WORDS: dict[str, Callable[[Any], str]] = {
    "incident_rate": _default_in_words,
    "hold_off": _default_in_words,
    "open_incident": _open_in_words,
    "clock": _clock_in_words,
}
