"""What is said of a run at its end, for people: each gives the lines that there are to say, often none."""

from __future__ import annotations

from svead_stream.cli.words import counted
from svead_stream.clock import Clock
from svead_stream.judging import ConformalFilter
from svead_stream.spans import lasting, rate, span


def no_alert_possible(model: ConformalFilter) -> str:
    """Why none of the rows could be an alert."""
    if model.burns_in:
        return f"no row could be an alert: the burn-in (--burn-in {model.burn_in}) was not over at the end"
    return "no row could be an alert: there are too few of them, or too few that differ"


def burn_in(model: ConformalFilter, n_burn_in: int) -> list[str]:
    """Which rows could be no alerts, and why."""
    if not n_burn_in:
        return []
    given = span(model.burn_in)
    is_due_to_it = given.in_time or n_burn_in <= given.amount
    why = " (--burn-in)" if is_due_to_it else ": there were too few to rank among"
    rows = "row was" if n_burn_in == 1 else f"{n_burn_in:,} rows were"
    return [f"the first {rows} learned without alerts{why}"]


def incidents(model: ConformalFilter, n_incidents: int | None, n_alerts: int, n_before: int) -> list[str]:
    """How many incidents and alerts there were; None without learning; `n_before` incidents are of earlier runs."""
    alerts = counted(n_alerts, "alert")
    if n_incidents is None:
        return [f"{alerts}; without learning no incidents are told"]
    new = counted(n_incidents, "new incident" if n_before else "incident")
    still = f", incident {model.open_incident.number} still open" if model.open_incident is not None else ""
    return [f"{new}{still}, {alerts}"]


def too_short(model: ConformalFilter, seconds: float) -> list[str]:
    """Whether rows that take so long are too few for an incident, at the rate that was asked for."""
    asked = None if model.incident_rate is None else rate(model.incident_rate)
    if asked is None or not asked.in_time or not seconds * asked.amount < 1:
        return []
    due = lasting(1 / asked.amount)
    return [f"at {model.incident_rate} an incident is due every {due}, and the rows span {lasting(seconds)}"]


def alert_share(model: ConformalFilter, share: float, learn: bool) -> list[str]:
    """Whether there were more alerts than asked for, and why."""
    if not share > 1.2 * model.alert_rate:
        return []
    why = "those of an incident go on as long as it lasts" if learn else "without learning the rate is not held"
    return [f"alerts are {share:.1%} of the rows where {model.alert_rate:.1%} were asked for: {why}"]


def odd_times(before: Clock, now: Clock) -> str:
    """What was odd about the times since the clock stood as before; empty where nothing was."""
    counts = ("n_missing", "n_backward", "n_duplicate")
    return Clock(**{name: getattr(now, name) - getattr(before, name) for name in counts}).summary()
