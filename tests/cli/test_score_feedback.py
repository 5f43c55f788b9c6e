"""`score --feedback`: answers reach the model right after their rows, or by their values before the first one."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import svead_stream
from svead_stream import ConformalFilter, StreamingSVEAD
from svead_stream.cli import sources
from svead_stream.cli.answers import column_of
from svead_stream.cli.progress import Progress

NAMES = ["heat", "load", "speed"]
SAID = {300: True, 420: False, 421: True, 422: False, 900: True, 1_200: False}  # by row: single ones, and some in a row


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of answers: text as it is, records as JSON lines or Parquet."""

    def of(answers: str | list[dict[str, Any]], name: str = "answers.csv") -> Path:
        path = tmp_path / name
        if isinstance(answers, str):
            path.write_text(answers)
        elif path.suffix == ".parquet":
            pa.parquet.write_table(pa.Table.from_pylist(answers), path)
        else:
            path.write_text("".join(json.dumps(one) + "\n" for one in answers))
        return path

    return of


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, dict[str, float], bool | None, bool]]:
    """What the model was told: after how many events, of which, what, and whether to teach it."""
    told = []

    def feedback_one(self: ConformalFilter, x: dict[str, float], is_anomaly: bool | None, teach: bool = False) -> bool:
        told.append((self.n_seen_, x, is_anomaly, teach))
        return True

    monkeypatch.setattr(ConformalFilter, "feedback_one", feedback_one)
    return told


def scores_of(out: bytes) -> list[float]:
    return [float(row["score"]) for row in csv.DictReader(io.StringIO(out.decode()))]


def loop(model: ConformalFilter, X: np.ndarray, said: dict[int, bool], learn: bool = True) -> list[float]:
    """The scores of events that are judged one by one, each with its answer."""
    scores = []
    for row, values in enumerate(X.tolist(), start=1):
        x = dict(zip(NAMES, values, strict=True))
        scores.append(model.judge_one(x, learn=learn).score)
        if row in said:
            model.feedback_one(x, said[row])
    return scores


@pytest.fixture(scope="module")
def expected(rows: Any) -> list[float]:
    return loop(ConformalFilter(StreamingSVEAD(seed=0)), rows[0], SAID)


def when(row: int) -> str:
    """The time of a row of the sensors."""
    return f"2026-01-01T{(row - 1) // 60:02}:{(row - 1) % 60:02}"


BY_ROW = "row,is_anomaly\n" + "".join(f"{row},{int(said)}\n" for row, said in SAID.items())

# the same as a loop


@pytest.mark.parametrize("block", [700, 9_000, 1 << 20])
def test_scores_are_those_of_a_loop_wherever_batches_are_cut(
    run: Any, sensors: Path, write: Any, expected: Any, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    answers = write(BY_ROW)
    monkeypatch.setattr(sources, "BLOCK", block)
    result = run("score", sensors, "-x", "fault", "--feedback", answers)
    assert (result.code, result.said) == (0, "")
    assert scores_of(result.out) == expected


def test_answers_change_the_rows_after_them_and_none_before(run: Any, sensors: Path, expected: Any) -> None:
    without = scores_of(run("score", sensors, "-x", "fault").out)
    assert without[:300] == expected[:300]
    assert without[300:] != expected[300:]


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("a.csv", BY_ROW.replace(",1\n", ",true\n").replace(",0\n", ",No\n")),
        ("a.csv", BY_ROW.replace(",", ";")),
        ("a.csv", BY_ROW + "50,\n60,?\n70,unknown\n"),
        ("a.csv", "time,is_anomaly\n" + "".join(f"{when(row)},{int(said)}\n" for row, said in SAID.items())),
        ("a.csv", "is_anomaly,time\n" + "".join(f"{int(said)},{when(row)}:00.000Z\n" for row, said in SAID.items())),
        ("a.jsonl", [{"row": row, "is_anomaly": said} for row, said in SAID.items()]),
        ("a.jsonl", [{"row": row, "is_anomaly": "yes" if said else 0} for row, said in SAID.items()]),
        ("a.parquet", [{"row": float(row), "is_anomaly": int(said), "note": "x"} for row, said in SAID.items()]),
        (
            "a.parquet",
            [{"time": np.datetime64(when(row), "us").item(), "is_anomaly": said} for row, said in SAID.items()],
        ),
    ],
)
def test_a_file_of_any_shape_says_the_same(
    run: Any, sensors: Path, write: Any, expected: Any, name: str, answers: Any
) -> None:
    result = run("score", sensors, "-x", "fault", "--feedback", write(answers, name))
    assert (result.code, result.said) == (0, "")
    assert scores_of(result.out) == expected


def test_rows_are_counted_over_all_files_and_bad_ones_are_not(run: Any, rows: Any, write: Any, taken: Any) -> None:
    lines = [",".join(map(str, row)) for row in rows[0].tolist()]
    head = ",".join(NAMES)
    first = write("\n".join([head, *lines[:150], "oops", *lines[150:200]]) + "\n", "1.csv")
    answers = write("row,is_anomaly\n160,1\n205,0\n")
    rest = "\n".join([head, *lines[200:400]]).encode()
    result = run("score", first, "-", "--feedback", answers, stdin=rest)
    assert result.code == 0
    assert taken == [
        (row, dict(zip(NAMES, rows[0][row - 1], strict=True)), said, False) for row, said in ((160, True), (205, False))
    ]


def test_all_answers_to_a_row_count_in_the_order_of_the_file(run: Any, sensors: Path, write: Any, taken: Any) -> None:
    answers = write(f"row,time,is_anomaly\n500,,1\n,{when(500)},0\n500,,1\n,{when(20)},1\n")
    assert run("score", sensors, "-x", "fault", "--feedback", answers).code == 0
    assert [(seen, said) for seen, _, said, _ in taken] == [(20, True), (500, True), (500, False), (500, True)]


@pytest.mark.parametrize("column", ["stamp", "time"])
def test_a_time_is_that_of_its_first_row_in_the_form_of_the_clock_or_in_iso(
    run: Any, write: Any, taken: Any, column: str
) -> None:
    start = 1_767_225_600_000  # milliseconds
    lines = [f"{start + i // 2 * 1_000 + 123},{i % 7},{i % 5}" for i in range(200)]
    given = "2026-01-01T00:00:40.123Z" if column == "time" else start + 40_123
    answers = write(f"{column},is_anomaly\n{given},1\n")
    result = run("score", "-", "--feedback", answers, stdin="\n".join(["stamp,a,b", *lines]).encode())
    assert result.code == 0
    assert "not used" not in result.err
    assert [seen for seen, *_ in taken] == [81]


def test_missing_values_of_a_row_are_missing_in_what_the_model_is_told(run: Any, write: Any, taken: Any) -> None:
    lines = ["a,b", *(f"{i % 7},{'' if i == 49 else i % 5}" for i in range(100))]
    assert run("score", "-", "--feedback", write("row,is_anomaly\n50,1\n"), stdin="\n".join(lines).encode()).code == 0
    ((seen, x, _, _),) = taken
    assert (seen, x["a"]) == (50, 0.0)
    assert np.isnan(x["b"])


def test_reports_and_incidents_do_not_depend_on_where_batches_are_cut(
    run: Any, sensors: Path, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, told = write(BY_ROW), []
    for block in (1 << 20, 2_000):
        monkeypatch.setattr(sources, "BLOCK", block)
        files = ["--report", tmp_path / "r.html", "--incidents", tmp_path / "i.jsonl", "-o", tmp_path / "o.csv"]
        result = run("score", sensors, "--label", "fault", "--feedback", answers, *files, "--incident-rate", 0.01)
        data = (tmp_path / "r.html").read_text().split('id="data">')[1].split("</script>")[0]
        report = json.loads(data) | {"seconds": None, "written": None}
        for feature in (feature for alert in report["table"] for feature in alert["features"]):
            feature.pop("usual")  # of the rows before, which are looked at in parts
        told.append((result.err, report, (tmp_path / "i.jsonl").read_text(), (tmp_path / "o.csv").read_text()))
    assert told[0] == told[1]
    assert told[0][1]["incidents"]["true"] > 1


# by value


@pytest.fixture
def model(run: Any, sensors: Path, tmp_path: Path) -> Path:
    """One that has learned the sensors."""
    path = tmp_path / "m.svead"
    assert run("score", sensors, "-x", "fault", "--save", path, "-o", tmp_path / "first.csv").code == 0
    return path


BY_VALUE = "row,time,is_anomaly,heat,load,speed\n3,2020-01-01,1,6.5,6,5\n99999,,0,3,,1\n7,,,1,1,1\n"


@pytest.mark.parametrize("learn", [True, False])
def test_a_loaded_model_is_told_by_values_before_the_first_row(
    run: Any, sensors: Path, rows: Any, write: Any, model: Path, learn: bool
) -> None:
    flags = [] if learn else ["--no-learn"]
    result = run("score", sensors, "-x", "fault", "--load", model, "--feedback", write(BY_VALUE), *flags)
    assert (result.code, result.said) == (0, "")
    by_hand = svead_stream.load(model)
    by_hand.feedback_one({"heat": 6.5, "load": 6.0, "speed": 5.0}, True)
    by_hand.feedback_one({"heat": 3.0, "speed": 1.0}, False)
    assert scores_of(result.out) == loop(by_hand, rows[0], {}, learn)
    without = run("score", sensors, "-x", "fault", "--load", model, *flags)
    assert scores_of(result.out) != scores_of(without.out)


def test_answers_by_row_count_without_learning_too(run: Any, sensors: Path, rows: Any, write: Any, model: Path) -> None:
    result = run("score", sensors, "-x", "fault", "--load", model, "--no-learn", "--feedback", write(BY_ROW))
    assert scores_of(result.out) == loop(svead_stream.load(model), rows[0], SAID, learn=False)


def test_what_was_answered_is_saved_with_the_model(
    run: Any, sensors: Path, rows: Any, write: Any, model: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told.svead"
    run("score", sensors, "-x", "fault", "--load", model, "--feedback", write(BY_VALUE), "--save", told)
    again = scores_of(run("score", sensors, "-x", "fault", "--load", told).out)
    by_hand = svead_stream.load(model)
    by_hand.feedback_one({"heat": 6.5, "load": 6.0, "speed": 5.0}, True)
    by_hand.feedback_one({"heat": 3.0, "speed": 1.0}, False)
    loop(by_hand, rows[0], {})
    assert again == loop(by_hand, rows[0], {})


def test_a_row_without_values_among_answers_with_values_is_of_another_run(
    run: Any, sensors: Path, write: Any, model: Path, taken: Any
) -> None:
    answers = write("row,time,heat,is_anomaly\n2,,3.5,1\n5,,,0\n" + f",{when(9)},,1\n")
    result = run("score", sensors, "-x", "fault", "--load", model, "--feedback", answers)
    assert [(seen, said) for seen, _, said, _ in taken] == [(1_200, True), (1_209, True)]
    assert result.said == "1 answer was not used: line 3 is without values, beside others of an earlier run\n"


def test_features_named_like_other_columns_have_a_prefix(run: Any, write: Any, tmp_path: Path, taken: Any) -> None:
    names = ["row", " time", "feature:x", "a,b", 'say "a"\nor;;;b', "=1+1"]
    rng = np.random.default_rng(3)
    lines = [dict(zip(names, values, strict=True)) for values in rng.normal(size=(300, 6)).round(3).tolist()]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    saved = tmp_path / "m"
    assert run("score", "-", "--save", saved, stdin=data).code == 0
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "is_anomaly", *map(column_of, names)])
    writer.writerow([3, 1, *range(6)])
    result = run("score", "-", "--load", saved, "--feedback", write(text.getvalue()), stdin=data)
    assert (result.code, result.said) == (0, "")
    assert taken == [(300, dict(zip(names, map(float, range(6)), strict=True)), True, False)]


# what is told


@pytest.mark.parametrize("teach", [False, True])
def test_people_are_told_how_many_were_taken(
    run: Any, sensors: Path, write: Any, taken: Any, monkeypatch: pytest.MonkeyPatch, teach: bool
) -> None:
    monkeypatch.setattr("svead_stream.cli.run.Progress", partial(Progress, True))
    answers = write(BY_ROW + "7,?\n")
    flags = ["--teach-false-alarms"] if teach else []
    result = run("score", sensors, "-x", "fault", "-o", "/dev/null", "--feedback", answers, *flags)
    assert result.err.splitlines()[-1] == "took 6 answers: 3 real, 3 false alarms; 1 unknown"
    assert [taught for *_, taught in taken] == [teach] * 6


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ("row,is_anomaly\n7001,1\n5,1\n7002,0\n", "2 answers were not used: rows 7001, 7002 are beyond the last row"),
        ("row,is_anomaly\n1201,1\n", "1 answer was not used: row 1201 is beyond the last row"),
        (f"time,is_anomaly\n2026-02-01,1\n{when(4)},1\n", "1 answer was not used: line 2 is of a time that no row has"),
        (
            f"row,time,is_anomaly\n5,{when(6)},1\n6,{when(6)},1\n",
            "1 answer was not used: row 5 is of another time here: the answers may be to another run",
        ),
        (
            "row,heat,is_anomaly\n5,1234.5,1\n6,,1\n",
            "1 answer was not used: row 5 is of other values here: the answers may be to another run",
        ),
    ],
)
def test_what_cannot_be_placed_is_told_at_the_end(
    run: Any, sensors: Path, write: Any, taken: Any, answers: str, told: str
) -> None:
    result = run("score", sensors, "-x", "fault", "--feedback", write(answers))
    assert (result.code, result.said) == (0, told + "\n")
    assert len(result.lines) == 1_201
    assert len(taken) == answers.count("\n") - 1 - int(told.split()[0])


def test_values_that_are_those_of_the_row_leave_its_answer_in_place(
    run: Any, sensors: Path, rows: Any, write: Any
) -> None:
    heat = rows[0][299][0]
    one, other = (
        run("score", sensors, "-x", "fault", "--feedback", write(text))
        for text in (f"row,heat,is_anomaly\n300,{heat!r},1\n", "row,is_anomaly\n300,1\n")
    )
    assert (one.code, one.said, one.out) == (0, "", other.out)


def test_answers_to_a_model_of_other_features_are_refused(run: Any, sensors: Path, write: Any, model: Path) -> None:
    answers = write("row,is_anomaly,pressure,note\n300,1,0.5,x\n")
    result = run("score", sensors, "-x", "fault", "--load", model, "--feedback", answers)
    assert result.code == 1
    assert "none of pressure is a feature of the model that is loaded" in result.err
    text = write("row,is_anomaly,note\n300,1,x\n")
    assert run("score", sensors, "-x", "fault", "--load", model, "--feedback", text).code == 0


def test_an_answer_of_which_the_model_knows_nothing_is_told(run: Any, sensors: Path, write: Any, model: Path) -> None:
    answers = write("heat,load,is_anomaly\ninf,,1\n2,2,1\n")
    result = run("score", sensors, "-x", "fault", "--load", model, "--feedback", answers)
    assert (result.code, result.said) == (
        0, "1 answer was not used: line 2 is about nothing that the model knows\n"
    )  # fmt: skip


def test_where_no_row_can_be_scored_no_model_is_saved(run: Any, write: Any, model: Path, tmp_path: Path) -> None:
    bad, saved = write("heat,load,speed\n1,2,x\n", "bad.csv"), tmp_path / "saved.svead"
    answers = write("heat,is_anomaly\n3,1\n")
    result = run("score", bad, "--load", model, "--feedback", answers, "--save", saved)
    assert result.code == 1
    assert "no row could be scored" in result.err
    assert not saved.exists()


def test_times_mean_nothing_to_rows_without_a_clock(run: Any, write: Any, taken: Any) -> None:
    rows = "\n".join(["a,b", *(f"{i % 7},{i % 5}" for i in range(50))]).encode()
    result = run("score", "-", "--feedback", write("row,time,is_anomaly\n,2026-01-01,1\n9,2026-01-01,1\n"), stdin=rows)
    assert result.err.endswith("1 answer was not used: line 2 is about a time, and the rows have none\n")
    assert [seen for seen, *_ in taken] == [9]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ("", "answers.csv is empty"),
        ("row,real\n3,1\n", "answers.csv: no column is_anomaly among row, real: it says 1 or 0"),
        ("note,is_anomaly\nx,1\n", "answers.csv: no column says which rows it is about (row, time)"),
        ("heat,load,is_anomaly\n1,2,1\n", "values alone are for a model that knows them: --load one"),
        ("row,time,is_anomaly\n3,,1\n,,1\n", "answers.csv, line 3: names no row and no time"),
        ("row,is_anomaly\n3,1\n4,maybe\n", "answers.csv, line 3: 'maybe' is no answer: is_anomaly is 1 or 0"),
        ("row,is_anomaly\n3,1\n4,2\n", "answers.csv, line 3: '2' is no answer"),
        ("row,is_anomaly\n0,1\n", "answers.csv, line 2: 0 is no row: rows are counted from 1 on, over all files"),
        ("row,is_anomaly\n2.5,1\n", "answers.csv, line 2: 2.5 is no row"),
        ("row,is_anomaly\ninf,1\n", "answers.csv, line 2: inf is no row"),
        ("row,is_anomaly\nx,1\n", "answers.csv, line 2: 'x' in column 'row' is not a number"),
        ("row,is_anomaly\n3,1\n4\n", "answers.csv, line 3 has 1 cell where the header has 2"),
        ("time,is_anomaly\nyesterday,1\n", "answers.csv, line 2: its time cannot be read as a time"),
    ],
)
def test_a_bad_file_is_one_line_that_says_where_and_what_to_do(
    run: Any, sensors: Path, write: Any, tmp_path: Path, taken: Any, answers: str, words: str
) -> None:
    written = [tmp_path / name for name in ("o.csv", "r.html", "m.svead", "i.csv")]
    files = [part for pair in zip(("-o", "--report", "--save", "--incidents"), written, strict=True) for part in pair]
    result = run("score", sensors, "-x", "fault", "--feedback", write(answers), *files)
    assert result.code == 1
    assert words in result.said
    assert len(result.said.splitlines()) == 1
    assert not any(path.exists() for path in written)
    assert taken == []


def test_a_value_that_is_no_number_is_named(run: Any, sensors: Path, write: Any, model: Path) -> None:
    result = run("score", sensors, "--load", model, "--feedback", write("heat,is_anomaly\n3,1\nhot,1\n"))
    assert result.code == 1
    assert "answers.csv, line 3: 'hot' in column 'heat' is not a number" in result.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--teach-false-alarms"], "give --feedback FILE"),
        (["--feedback", "no-such.csv"], "does not exist"),
        (["--feedback", "{answers}", "-o", "{answers}"], "is an input as well"),
        (["--feedback", "{answers}", "--load", "{model}", "--no-learn", "--teach-false-alarms"], "leave out"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    run: Any, sensors: Path, write: Any, model: Path, args: list[str], words: str
) -> None:
    answers = write(BY_ROW)
    result = run("score", sensors, *(arg.format(answers=answers, model=model) for arg in args))
    assert result.code == 2
    assert words in result.err
    assert answers.read_text() == BY_ROW
