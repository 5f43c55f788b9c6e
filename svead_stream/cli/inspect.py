"""`svead-stream inspect`: what a model file holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model", type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def inspect(model: str, as_json: bool) -> None:
    """Show what the model file MODEL is: parameters, features, events seen, size."""
    from svead_stream import load

    facts = describe(load(model))
    facts = {"file": model, "bytes": Path(model).stat().st_size, **facts}
    if as_json:
        click.echo(json.dumps(facts))
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {_shown(value)}")


def describe(model: Any) -> dict[str, Any]:
    """The facts about a model, whichever kind it is."""
    from svead_stream.judging import ConformalFilter
    from svead_stream.parameters import values_of
    from svead_stream.streaming import StreamingSVEAD

    facts: dict[str, Any] = {"kind": type(model).__name__}
    if isinstance(model, ConformalFilter):
        facts |= {
            "alert_rate": model.alert_rate,
            "alert_window": model.capacity,
            "protect": model.protect,
            "alerts": model.n_alerts_,
            "threshold": model.threshold,
        }
        model = model.detector
        facts["detector"] = type(model).__name__
    if isinstance(model, StreamingSVEAD):
        facts |= {
            "parameters": values_of(model),
            "events_seen": model.n_seen_,
            "missing_values": model.n_missing_,
            "features": [str(name) for name in model.feature_names_],
        }
    else:
        facts["parameters"] = model.get_params()
    return facts


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
