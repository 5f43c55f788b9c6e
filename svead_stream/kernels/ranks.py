"""Where a score stands among the recent ones, what of it becomes an alert, and which alerts are an incident.

An incident opens at an event that is rare enough, and every alert from then on belongs to it until there was none for
a while. How rare is enough is set by the incidents that were asked for: the credit rises by one in the time in which
one is due, and falls by one when one opens, and the p-value that opens the next is the rate asked for times 2^credit.
So the rate is held whatever the scores do, and yet no single event is decided by the budget alone.
"""

from __future__ import annotations

import math

from svead_stream.kernels.compiled import kernel, short_kernel
from svead_stream.kernels.layout import F64, I64, U8, Rules, Window

# positions in the counters of a window: oldest place in the ring, known scores, withheld events among them, scores
# entered, events judged and alerts in all, incidents, whether one is open, how many alerts it had, and the last of them
OLDEST, KNOWN, WITHHELD, ENTERED, JUDGED, ALERTS, INCIDENTS, OPEN, OWN_ALERTS, ALERT_AT = range(10)
N_COUNTERS = 10
# positions in its pace: credit for incidents, the time that has passed, and the times of the latest event and alert
CREDIT, ELAPSED, LATEST, ALERT_TIME = range(4)
N_PACE = 4

# what is said of an event: it is an alert, it belongs to an incident, it opens one, it shows that one was over
ALERT, MEMBER, OPENS, CLOSES = 1, 2, 4, 8

MOST_CREDIT = 5.0  # either way: what opens an incident is at most 32 times rarer or commoner than usual
_COMMONEST = 0.5  # p-value that can open an incident
_LONGEST_STEP = (
    86_400.0  # seconds between two events that count as passed: a gap, or a wrong time, is not a year of rest
)
_BY_CHANCE = 0.3001  # alerts within a hold-off, at most, if they come by chance; rounding must not make it fewer
_TAIL = 20  # one in so many scores is among the highest, which tell how scores thin out
_FIRST_ALERTS = 2  # of an incident, whose scores are ranked like others: short incidents are part of every stream
_LAST_ALERT = 1000  # of an incident, after which its scores are ranked like others: it may be there to stay


@kernel
def lower(ordered: F64, n: int, score: float) -> int:
    """How many of the first n, which are in order, are lower than the score; without a branch to guess wrong."""
    base = 0
    while n > 0:
        half = (n + 1) // 2
        base += half if ordered[base + half - 1] < score else 0
        n -= half
    return base


@kernel
def p_value(score: float, ordered: F64, counters: I64) -> float:
    """The rank of a score among the known ones, itself included; 1 for NaN."""
    known = counters[KNOWN]
    return 1.0 if math.isnan(score) else (known - lower(ordered, known, score) + 1) / (known + 1)


@kernel
def allowed(level: float, known: int) -> int:
    """How many of the known scores may be as high as that of an alert, plus one; 0 while too few are known."""
    most = int(level * (known + 1)) + 1  # or less, by one or, where the product was rounded up, by two
    while most / (known + 1) > level:
        most -= 1
    return most


@kernel
def rate_an_event(rules: Rules, counters: I64, pace: F64) -> float:
    """Incidents asked for, an event; those in time by how much time an event was so far."""
    return rules.rate * pace[ELAPSED] / max(counters[JUDGED], 1) if rules.rate_in_time else rules.rate


@kernel
def opening_level(rules: Rules, counters: I64, pace: F64) -> float:
    """The p-value up to which an event opens an incident, if none is open."""
    credit = pace[CREDIT]
    level = min(_COMMONEST, rate_an_event(rules, counters, pace) * 2.0**credit)
    # Where incidents are to be rarer than the window can tell, it is the strangest of its events, once one is due.
    return max(level, min(_COMMONEST, 1.0 / (counters[KNOWN] + 1))) if credit >= 1.0 else level


@kernel
def burns_in(rules: Rules, counters: I64, pace: F64) -> bool:
    """Whether the next event is among the first, whose ranks mean nothing yet."""
    return (pace[ELAPSED] if rules.burn_in_in_time else counters[JUDGED]) < rules.burn_in


@kernel
def levels(rules: Rules, window: Window) -> tuple[float, float]:
    """The p-values up to which the next event is an alert, and opens an incident if none is open."""
    counters, pace = window.counters, window.pace
    if burns_in(rules, counters, pace):
        return 0.0, 0.0
    opening = opening_level(rules, counters, pace)
    return rules.alert_rate if counters[OPEN] else max(rules.alert_rate, opening), opening


@kernel
def threshold(level: float, window: Window) -> float:
    """The score that an event has to exceed to have at most that p-value; infinite if none can."""
    known = window.counters[KNOWN]
    most = allowed(level, known)
    return window.ordered[known - most] if most > 0 else math.inf


@kernel
def enter(score: float, at: int, withhold: bool, least: int, window: Window) -> None:
    """Add a score that is higher than so many others.

    The window holds the newer half of all scores, as far as there is room: those of a young model soon mean nothing.
    """
    recent, ordered, counters = window.recent, window.ordered, window.counters
    capacity, known = recent.shape[0], counters[KNOWN]
    slot = counters[OLDEST] + known
    hole = known
    if known >= min(capacity, max(least, counters[ENTERED] // 2)):
        oldest = counters[OLDEST]
        hole = lower(ordered, known, recent[oldest])
        counters[WITHHELD] -= window.withheld[oldest]
        counters[OLDEST] = oldest + 1 if oldest + 1 < capacity else 0
    else:
        counters[KNOWN] += 1
    slot = slot - capacity if slot >= capacity else slot
    if hole < at:  # both loops run upwards from 0 over a slice: only so are they compiled to vectors
        part = ordered[hole:at]
        for j in range(part.shape[0] - 1):
            part[j] = part[j + 1]
        part[part.shape[0] - 1] = score
    else:
        part, moved = ordered[at : hole + 1], score
        for j in range(part.shape[0]):
            own = part[j]
            part[j] = moved
            moved = own
    recent[slot] = score
    window.withheld[slot] = withhold
    counters[WITHHELD] += withhold
    counters[ENTERED] += 1


@kernel
def ends(rules: Rules, counters: I64, pace: F64) -> bool:
    """Whether the open incident is over at the event that is being judged."""
    if rules.hold_off_in_time:
        return pace[LATEST] - pace[ALERT_TIME] > rules.hold_off
    quiet = counters[JUDGED] - counters[ALERT_AT]
    most = rules.hold_off_share
    return quiet > rules.hold_off or (most > 0.0 and quiet * rate_an_event(rules, counters, pace) > most)


@kernel
def member_level(rules: Rules, counters: I64, pace: F64) -> float:
    """The p-value up to which an alert belongs to the open incident.

    Alerts by chance must not keep it open: within a hold-off they are a third of one at most.
    """
    quiet = rules.hold_off
    if rules.hold_off_in_time:
        quiet = quiet * max(counters[JUDGED], 1) / max(pace[ELAPSED], 1e-9)
    return max(min(rules.alert_rate, _BY_CHANCE / max(quiet, 1e-9)), 1.0 / (counters[KNOWN] + 1))


@kernel
def follow(alert: bool, opens: bool, belongs: bool, burning: bool, time: float, rules: Rules, window: Window) -> int:
    """Move on by an event that is an alert, or none, and opens an incident or belongs to the open one, if that can be.

    Returns what is said of it.
    """
    counters, pace = window.counters, window.pace
    said = ALERT if alert else 0
    passed = time - pace[LATEST] if pace[LATEST] <= time else 0.0
    pace[ELAPSED] += min(passed, _LONGEST_STEP)
    pace[LATEST] = time
    if not pace[ALERT_TIME] <= time:  # it is not known, or the clock was set back
        pace[ALERT_TIME] = time
    if counters[OPEN] and ends(rules, counters, pace):
        counters[OPEN] = 0
        said |= CLOSES
    if opens and not counters[OPEN]:
        counters[OPEN] = 1
        counters[INCIDENTS] += 1
        counters[OWN_ALERTS] = 0
        pace[CREDIT] = max(-MOST_CREDIT, pace[CREDIT] - 1.0)
        said |= OPENS
    if (belongs or said & OPENS) and counters[OPEN]:
        counters[OWN_ALERTS] += 1
        counters[ALERT_AT] = counters[JUDGED]
        pace[ALERT_TIME] = time
        said |= MEMBER
    if not burning:
        due = rules.rate * (passed if rules.rate_in_time else 1.0)
        pace[CREDIT] = min(MOST_CREDIT, pace[CREDIT] + due)
    counters[ALERTS] += alert
    counters[JUDGED] += 1
    return said


@kernel
def rarity(p: float, score: float, window: Window) -> float:
    """The p-value, carried on beyond the scores that are known.

    A rank cannot tell a score just above all others from one far above. The highest scores thin out about
    exponentially; their mean distance from where they begin tells how fast.
    """
    ordered, known = window.ordered, window.counters[KNOWN]
    tail = (known + _TAIL - 1) // _TAIL
    if tail < 2 or not score > ordered[known - 1]:
        return p
    start, total = ordered[known - tail], 0.0
    for j in range(known - tail, known):
        total += ordered[j] - start
    beyond = (score - ordered[known - 1]) * tail
    return p * math.exp(-beyond / total) if total > 0.0 else 0.0


@kernel
def judge(
    score: float, time: float, withhold: bool, level: float, opening: float, rules: Rules, window: Window
) -> tuple[float, int]:
    """The p-value of a score, and what is said of it at these levels; it is then counted and entered.

    Not entered are NaN; zeros before the first other score: those of a detector that is warming up; and what goes on
    strange in an incident: it would make itself usual, and hide what comes after it. Events that were withheld always
    are, so that they are counted.
    """
    if math.isnan(score):
        return 1.0, follow(False, False, False, level == 0.0, time, rules, window)
    counters = window.counters
    known = counters[KNOWN]
    at = lower(window.ordered, known, score)
    p = (known - at + 1) / (known + 1)
    alert = p <= level
    opens = alert and rarity(p, score, window) <= opening
    belongs = alert and p <= member_level(rules, counters, window.pace)
    said = follow(alert, opens, belongs, level == 0.0, time, rules, window)
    lasts = said & MEMBER and _FIRST_ALERTS < counters[OWN_ALERTS] <= _LAST_ALERT
    if (score != 0.0 or known > 0) and (withhold or not lasts):
        enter(score, at, withhold, rules.least, window)
    return p, said


@kernel
def unpacked(packed: F64) -> Rules:
    """Rules from an array, in the order of their fields."""
    return Rules(
        packed[0],
        int(packed[1]),
        packed[2],
        packed[3] != 0.0,
        packed[4],
        packed[5] != 0.0,
        packed[6],
        packed[7],
        packed[8] != 0.0,
    )


@short_kernel
def judge_event(
    score: float,
    time: float,
    withhold: bool,
    packed_rules: F64,
    recent: F64,
    ordered: F64,
    withheld: U8,
    counters: I64,
    pace: F64,
) -> tuple[float, int, float]:
    """What `judge` says of a score, and the threshold for the next one; flat arguments, and few, cost less."""
    rules, window = unpacked(packed_rules), Window(recent, ordered, withheld, counters, pace)
    level, opening = levels(rules, window)
    p, said = judge(score, time, withhold, level, opening, rules, window)
    level, opening = levels(rules, window)
    return p, said, threshold(level, window)


@kernel
def judge_scores(
    scores: F64, times: F64, learn: bool, rules: Rules, window: Window, p_values: F64, said: U8, thresholds: F64
) -> None:
    """What is said of scores one after the other, each of which is then entered if asked."""
    level, opening = levels(rules, window)
    for i in range(scores.shape[0]):
        thresholds[i] = threshold(level, window)
        if learn:
            p_values[i], said[i] = judge(scores[i], times[i], False, level, opening, rules, window)
            level, opening = levels(rules, window)
        else:
            p_values[i] = p_value(scores[i], window.ordered, window.counters)
            said[i] = ALERT if scores[i] > thresholds[i] else 0


@short_kernel
def next_threshold(rules: Rules, window: Window) -> float:
    """The score that the next event has to exceed to be an alert."""
    level, _ = levels(rules, window)
    return threshold(level, window)
