"""The outside test of the Kafka worker finds what is lost, twice, strange, different or out of order."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import _fire_check as check
import pytest
from _fire_check import Record, Written

Change = Callable[[list[Record]], None]


def message(offset: int, kind: str, value: bytes | None) -> Record:
    headers = (("number", b"%d" % offset), ("kind", kind.encode()))
    return Record(0, offset, b"k%d" % (offset % 2), value, 1_700_000_000_000 + offset, headers)


def sent(count: int = 600) -> list[Record]:
    """Events of one partition with a fault in them, and two messages that are none."""
    rng = random.Random(0)
    rows = [{f"x{j}": rng.gauss(9 if 500 < i < 520 else 0, 1) for j in range(6)} for i in range(count)]
    records = [message(i, check.GOOD, json.dumps(row).encode()) for i, row in enumerate(rows)]
    records[40] = message(40, "cut off", b'{"x0"')
    many = {"x0": 1, "more": {str(j): j for j in range(20)}}
    records[50] = message(50, check.REFUSED, json.dumps(many).encode())
    return records


@pytest.fixture(scope="module", params=[False, True], ids=["partition", "key"])
def expected(request: pytest.FixtureRequest) -> Written:
    filters = {"alert_rate": 0.03, "burn_in": 50, "hold_off": 5}
    return check.Reference("in", request.param, {"seed": 7, "max_features": 10}, filters, top=2).run(sent())


def output(expected: Written) -> list[Record]:
    """Scored events as a worker writes them."""
    found = []
    for i, (value, key, timestamp, headers) in enumerate(expected.scored.values()):
        found.append(Record(0, i, key, value.encode(), timestamp, headers))
    return found


def test_the_reference_scores_tells_incidents_and_buries_what_is_no_event(expected: Written) -> None:
    assert len(expected.scored) == 598
    assert list(expected.dead) == [(0, 40), (0, 50)]
    assert {place[-1] for place in expected.incidents} >= {"open", "closed"}


def test_what_is_as_it_should_be_is_clean(expected: Written) -> None:
    assert check.compare(expected.scored, check.scored(output(expected))).clean
    letters = [
        Record(0, i, key, value, timestamp, (*headers, ("svead-partition", b"0"), ("svead-offset", b"%d" % place[1])))
        for i, (place, (value, key, timestamp, headers)) in enumerate(expected.dead.items())
    ]
    assert check.compare(expected.dead, check.dead(letters)).clean
    told = [
        Record(0, i, place[2].encode(), value.encode(), timestamp)
        for i, (place, (value, timestamp)) in enumerate(expected.incidents.items())
    ]
    assert check.compare(expected.incidents, check.incidents(told)).clean


def lose(records: list[Record]) -> None:
    del records[300]


def repeat(records: list[Record]) -> None:
    records.insert(310, records[300])


def swap(records: list[Record]) -> None:
    records[300], records[301] = records[301], records[300]


def invent(records: list[Record]) -> None:
    value = json.loads(records[300].value or b"")
    value["source"]["offset"] = 40  # which is a dead letter
    records.insert(300, records[300]._replace(value=json.dumps(value).encode()))


def nudge(records: list[Record]) -> None:
    value = json.loads(records[300].value or b"")
    value["score"] += 1e-16 + value["score"] * 2e-16  # the last bit
    records[300] = records[300]._replace(value=json.dumps(value).encode())


def stamp(records: list[Record]) -> None:
    records[300] = records[300]._replace(timestamp=records[300].timestamp + 1)


@pytest.mark.parametrize(
    ("change", "what"),
    [(lose, "lost"), (repeat, "twice"), (swap, "disordered"), (invent, "strange"), (nudge, "different"),
     (stamp, "different")],
)  # fmt: skip
def test_what_is_not_is_found(expected: Written, change: Change, what: str) -> None:
    records = output(expected)
    change(records)
    tally = check.compare(expected.scored, check.scored(records))
    assert not tally.clean
    wrong = {name: getattr(tally, name) for name in ("lost", "twice", "strange", "different", "disordered")}
    assert wrong == dict.fromkeys(wrong, 0) | {what: 1}
    assert tally.examples
