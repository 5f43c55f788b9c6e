"""What a column is: clock, counter, id or feature, and the user's choices that win over all of it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.json
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svead_stream.cli.clocks import Kind
from svead_stream.cli.columns import Columns
from svead_stream.cli.tables import Batch

N = 60
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
EVERY_MINUTE = [NOON + timedelta(minutes=i) for i in range(N)]
ISO = [moment.isoformat() for moment in EVERY_MINUTE]
EPOCH = [int(moment.timestamp()) for moment in EVERY_MINUTE]
HEAT = np.random.default_rng(1).normal(size=N)


def seconds(moments: Sequence[datetime]) -> list[float]:
    return [moment.timestamp() for moment in moments]


def table_of(**columns: Any) -> pa.Table:
    return pa.table(columns)


def batch_of(table: pa.Table) -> Batch:
    return Batch(table, np.arange(1, table.num_rows + 1))


def features_of(columns: Columns, table: pa.Table) -> list[str]:
    return columns.numbers("test", batch_of(table))[1].column_names


@pytest.mark.parametrize(
    "time", [ISO, EPOCH, EVERY_MINUTE, [str(one) for one in EPOCH]], ids=["text", "numbers", "stamps", "digits"]
)
def test_the_clock_is_found_and_is_no_feature(time: list[Any]) -> None:
    columns = Columns()
    table = table_of(heat=HEAT, when=time)
    batch, features = columns.numbers("test", batch_of(table))
    assert features.column_names == ["heat"]
    assert columns.clock == "when"
    assert columns.left_out == {"when": "clock"}
    times = columns.times(batch)
    assert times is not None
    assert times.tolist() == seconds(EVERY_MINUTE)


def test_without_a_clock_there_are_no_times() -> None:
    columns = Columns()
    batch, _ = columns.numbers("test", batch_of(table_of(heat=HEAT)))
    assert (columns.clock, columns.times(batch), columns.left_out) == (None, None, {})


def test_of_several_clocks_the_one_whose_name_says_so_is_taken() -> None:
    columns = Columns()
    assert features_of(columns, table_of(x=EPOCH, heat=HEAT, time=ISO)) == ["heat"]
    assert columns.clock == "time"
    assert columns.left_out == {"time": "clock", "x": "also a clock"}
    columns = Columns()
    assert features_of(columns, table_of(x=EPOCH, heat=HEAT, y=ISO)) == ["heat"]
    assert columns.clock == "x"
    columns = Columns()
    births = np.random.default_rng(0).permutation(ISO)
    assert features_of(columns, table_of(birth_date=births, heat=HEAT, event_time=ISO, sent_at=ISO)) == ["heat"]
    assert columns.clock == "event_time"  # the first that goes forward


def test_the_clock_that_is_asked_for_is_taken() -> None:
    columns = Columns(time="sent")
    assert features_of(columns, table_of(time=ISO, sent=EPOCH, heat=HEAT)) == ["heat"]
    assert columns.clock == "sent"
    assert columns.left_out == {"sent": "clock", "time": "also a clock"}
    columns = Columns(time="sent", ignore=("sent",))
    assert features_of(columns, table_of(sent=EPOCH, heat=HEAT)) == ["heat"]
    assert columns.clock == "sent"


def test_a_clock_that_is_not_there_or_cannot_be_read_is_a_sentence() -> None:
    with pytest.raises(click.UsageError, match=r"--time tim: no such column; did you mean 'time'\?"):
        Columns(time="tim").numbers("test", batch_of(table_of(time=ISO, heat=HEAT)))
    mode = ["fast", None, "slow"] * 20
    with pytest.raises(click.UsageError) as caught:
        Columns(time="mode").numbers("test", batch_of(table_of(mode=mode, heat=HEAT)))
    assert str(caught.value).startswith("--time mode: 'fast', 'slow', 'fast' cannot be read as times; ISO 8601 (2024-")
    with pytest.raises(click.UsageError, match=r"--time row: 59, 58, 57 cannot be read as times"):
        Columns(time="row").numbers("test", batch_of(table_of(row=range(N)[::-1], heat=HEAT)))
    for more in ({"use": ("time",)}, {"one_hot": ("time",)}, {"label": "time"}):
        with pytest.raises(click.UsageError, match="--time time: a clock is no feature and no label"):
            Columns(time="time", **more).numbers("test", batch_of(table_of(time=ISO, heat=HEAT)))  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [1, 0.5, HEAT % 1])
def test_numbers_that_grow_are_elapsed_seconds_where_the_user_says_so(step: Any) -> None:
    columns = Columns(time="run")
    grown = np.cumsum(step * np.ones(N))
    batch, features = columns.numbers("test", batch_of(table_of(run=grown, heat=HEAT)))
    assert features.column_names == ["heat"]
    assert columns.left_out == {"run": "clock, in seconds"}
    times = columns.times(batch)
    assert times is not None
    assert times.tolist() == grown.tolist()


def test_a_clock_that_the_user_names_may_begin_with_missing_cells() -> None:
    columns = Columns(time="when")
    batch, _ = columns.numbers("test", batch_of(table_of(when=pa.nulls(N, pa.string()), heat=HEAT)))
    times = columns.times(batch)
    assert times is not None
    assert np.isnan(times).all()
    batch, _ = columns.numbers("test", batch_of(table_of(when=ISO, heat=HEAT)))
    times = columns.times(batch)
    assert times is not None
    assert times.tolist() == seconds(EVERY_MINUTE)


def test_what_the_user_names_is_no_clock() -> None:
    table = table_of(time=EPOCH, heat=HEAT)
    columns = Columns(use=("time",))
    assert features_of(columns, table) == ["time"]
    assert columns.clock is None
    columns = Columns(ignore=("time",))
    assert features_of(columns, table) == ["heat"]
    assert (columns.clock, columns.left_out) == (None, {})
    columns = Columns(label="time")
    assert features_of(columns, table) == ["heat"]
    assert columns.clock is None
    columns = Columns(one_hot=("time",), max_categories=2)
    assert features_of(columns, table)[0] == "heat"
    assert columns.clock is None


def test_a_chosen_feature_does_not_hide_the_clock() -> None:
    columns = Columns(use=("heat",))
    assert features_of(columns, table_of(time=EPOCH, heat=HEAT, load=HEAT)) == ["heat"]
    assert (columns.clock, columns.left_out) == ("time", {"time": "clock"})


def test_features_of_a_model_stay_and_its_clock_is_found_again() -> None:
    table = table_of(time=EPOCH, heat=HEAT, row=range(N))
    columns = Columns(known=("heat",))
    assert features_of(columns, table) == ["heat"]
    assert (columns.clock, columns.left_out) == ("time", {"time": "clock", "row": "not in the model"})
    columns = Columns(known=("time", "heat", "row"))
    assert features_of(columns, table) == ["time", "heat", "row"]
    assert (columns.clock, columns.left_out) == (None, {})
    columns = Columns(known=("time", "heat"), time="time")  # an old model has learned the clock, and needs it
    assert features_of(columns, table) == ["time", "heat"]
    assert columns.clock == "time"


def test_a_batch_without_the_clock_has_no_times() -> None:
    columns = Columns()
    columns.numbers("test", batch_of(table_of(time=ISO, heat=HEAT)))
    for table in (table_of(heat=HEAT), table_of(time=pa.nulls(N), heat=HEAT), table_of(time=["soon"] * N, heat=HEAT)):
        times = columns.times(columns.numbers("test", batch_of(table))[0])
        assert times is not None
        assert np.isnan(times).all()
        assert len(times) == N


def test_a_clock_may_come_late() -> None:
    table, later = table_of(time=pa.nulls(N, pa.string()), heat=HEAT), table_of(time=ISO, heat=HEAT)
    for asked in (None, "time"):
        columns = Columns(time=asked)
        assert features_of(columns, table.slice(0, 0)) == []
        assert features_of(columns, table) == ["heat"]
        assert columns.clock is None
        assert features_of(columns, later) == ["heat"]
        assert columns.clock == "time"


def test_rows_that_are_set_aside_have_no_times() -> None:
    columns = Columns()
    heat = [str(one) for one in HEAT]
    heat[3] = "hot"
    batch, features = columns.numbers("test", batch_of(table_of(time=ISO, heat=heat)))
    times = columns.times(batch)
    assert times is not None
    assert times.tolist() == seconds(EVERY_MINUTE[:3] + EVERY_MINUTE[4:])
    assert features.num_rows == len(times)


def json_table(texts: Sequence[str]) -> pa.Table:
    lines = "".join(f'{{"time": "{text}", "heat": 1.5}}\n' for text in texts)
    return pa.json.read_json(io.BytesIO(lines.encode()))


@given(
    texts=st.lists(
        st.sampled_from(["2024-05-01", "2024-05-01T12:00:00Z", "2024-05-01 12:00:00.25", "soon", "2024-05-01T12", "7"]),
        max_size=12,
    ),
    cuts=st.lists(st.integers(0, 12), max_size=4),
)
def test_how_json_lines_are_cut_into_batches_changes_no_time(texts: list[str], cuts: list[int]) -> None:
    columns = Columns()
    columns.numbers("test", batch_of(json_table(["2024-05-01T11:00:00Z"] * 20)))
    found: list[float] = []
    for start, end in pairwise(sorted({0, len(texts), *(cut for cut in cuts if cut < len(texts))})):
        times = columns.times(columns.numbers("test", batch_of(json_table(texts[start:end])))[0])
        assert times is not None
        found += times.tolist()
    one_by_one = [float(Kind().seconds(pa.array([text]))[0]) for text in texts]
    np.testing.assert_array_equal(found, one_by_one)


# counters and ids

SHUFFLED = np.random.default_rng(2).permutation(10_000)[:N]
GAPS = np.cumsum(np.random.default_rng(3).integers(1, 5, N))


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("x", np.arange(N), "looks like a counter"),
        ("x", 5_000 - 3 * np.arange(N), "looks like a counter"),
        ("x", 1_000_000 + 1_000 * np.arange(N), "looks like a counter"),
        ("x", GAPS, "looks like a counter"),
        ("id", SHUFFLED, "looks like an id"),
        ("userId", SHUFFLED, "looks like an id"),
        ("User ID", SHUFFLED, "looks like an id"),
        ("id_of_order", SHUFFLED, "looks like an id"),
        ("order.number", SHUFFLED, "looks like an id"),
        ("Serial No", SHUFFLED, "looks like an id"),
        ("key", -SHUFFLED, "looks like an id"),
        ("order_id", 1_500_000_000 + 1_000 * np.cumsum(SHUFFLED), "looks like an id"),
        ("x", SHUFFLED, None),
        ("width", SHUFFLED, None),
        ("number_of_bytes", SHUFFLED, None),
        ("NO2", SHUFFLED, None),
        ("id", np.arange(N) // 2, None),
        ("id", np.arange(N)[:40], None),
        ("x", np.cumsum(SHUFFLED), None),
        ("id", np.append(SHUFFLED[1:], SHUFFLED[5]), None),
        ("id", np.cumsum(1.1 + HEAT % 1), None),
        ("x", np.arange(N) + 0.5, "looks like a counter"),
        ("x", np.round(0.1 * np.arange(N), 1), "looks like a counter"),
        ("x", np.cumsum(HEAT % 1), None),
        ("Time", np.cumsum(HEAT % 1), "looks like elapsed time"),
        ("time", np.arange(N) // 2, "looks like elapsed time"),
        ("response time", HEAT, None),
        ("time", np.zeros(N), None),
        ("x", HEAT, None),
    ],
)
def test_counters_and_ids_are_left_out_and_named(name: str, values: Any, why: str | None, text: bool) -> None:
    column = pa.array(values)
    table = pa.table({name: column.cast(pa.string()) if text else column, "heat": HEAT[: len(values)]})
    columns = Columns()
    assert features_of(columns, table) == (["heat"] if why else [name, "heat"])
    assert columns.left_out == ({name: why} if why else {})


def test_missing_and_bad_cells_do_not_hide_a_counter() -> None:
    cells: list[str | None] = [str(i) for i in range(N)]
    cells[7], cells[9], cells[11] = None, "seven", " "
    columns = Columns()
    assert features_of(columns, table_of(row=cells, heat=HEAT)) == ["heat"]
    assert columns.left_out == {"row": "looks like a counter"}


def test_ids_of_more_digits_than_a_number_holds_are_ids() -> None:
    columns = Columns()
    long = [f"12345678901234567890{i:03}" for i in range(N)]
    assert features_of(columns, table_of(id=long, heat=HEAT)) == ["heat"]
    assert columns.left_out == {"id": "looks like an id"}


def test_counters_and_ids_that_the_user_or_the_model_names_are_features() -> None:
    table = table_of(row=range(N), id=SHUFFLED, heat=HEAT)
    assert features_of(Columns(use=("row", "id")), table) == ["row", "id"]
    assert features_of(Columns(known=("row", "id", "heat")), table) == ["row", "id", "heat"]


def test_with_nothing_but_clocks_and_ids_there_are_no_features() -> None:
    assert features_of(Columns(), table_of(time=EPOCH, id=SHUFFLED, row=range(N))) == []


def test_a_file_of_nothing_but_row_numbers_is_a_sentence(run: Any) -> None:
    result = run("score", "-", stdin=("row\n" + "".join(f"{i}\n" for i in range(N))).encode())
    assert result.code == 1
    assert "no column of numbers to use among row" in result.err


@given(cuts=st.lists(st.integers(N, 3 * N), max_size=5))
def test_how_rows_are_cut_into_batches_changes_neither_times_nor_features(cuts: list[int]) -> None:
    rng = np.random.default_rng(4)
    n = 3 * N
    texts = [f"{NOON + timedelta(hours=i):%d/%m/%Y %H:%M}" for i in range(n)]
    texts[100] = "soon"
    table = table_of(
        time=texts, row=range(n), heat=rng.normal(size=n), id=rng.permutation(n), load=rng.integers(0, 9, n)
    )
    whole, cut = Columns(), Columns()
    batch, features = whole.numbers("test", batch_of(table))
    assert features.column_names == ["heat", "load"]
    ends = [0, N, *sorted(cuts), n]
    parts = [cut.numbers("test", batch_of(table.slice(a, b - a))) for a, b in pairwise(ends)]
    assert pa.concat_tables(part for _, part in parts).equals(features)
    times = whole.times(batch)
    assert times is not None
    assert np.flatnonzero(np.isnan(times)).tolist() == [100]
    np.testing.assert_array_equal(np.concatenate([cut.times(part) for part, _ in parts]), times)
    assert cut.left_out == whole.left_out


def test_names_with_commas_stand_between_quotes(run: Any) -> None:
    result = run("score", "-", "-f", '"heat, outside",load', stdin=b'"heat, outside",load,x\n1,2,3\n')
    assert result.err.startswith("using heat, outside, load\n")
