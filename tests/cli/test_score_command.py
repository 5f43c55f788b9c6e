"""`svead-stream score`: every format in and out gives the scores of the Python loop."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import svead_stream
from svead_stream import ConformalFilter, StreamingSVEAD
from svead_stream.cli import sources

NAMES = ["heat", "load", "speed"]


@pytest.fixture(scope="module")
def expected(rows: Any) -> Any:
    """What a loop in Python gives."""
    X, _ = rows
    model = ConformalFilter(StreamingSVEAD(seed=0), alert_rate=0.01)
    scores, p_values, alerts = [], [], []
    for row in X.tolist():
        x = dict(zip(NAMES, row, strict=True))
        scores.append(model.score_one(x))
        p_values.append(model.p_value(scores[-1]))
        alerts.append(model.classify(scores[-1]))
        model.learn_one(x)
    return scores, p_values, alerts


def parsed(out: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(out.decode())))


def scores_of(out: bytes) -> list[float]:
    return [float(row["score"]) for row in parsed(out)]


def as_jsonl(path: Path) -> bytes:
    table = pa.csv.read_csv(path)
    return b"".join(json.dumps(row, default=str).encode() + b"\n" for row in table.to_pylist())


def test_rows_come_out_as_they_went_in_with_the_numbers_of_the_loop(run: Any, sensors: Path, expected: Any) -> None:
    result = run("score", sensors, "--ignore", "fault")
    assert (result.code, result.said) == (0, "")
    before, after = sensors.read_text().splitlines(), result.lines
    assert after[0] == before[0] + ",score,p_value,alert,incident,top_features"
    assert [line[: len(old)] for line, old in zip(after, before, strict=True)] == before
    rows = parsed(result.out)
    assert [float(row["score"]) for row in rows] == expected[0]
    assert [float(row["p_value"]) for row in rows] == expected[1]
    assert [row["alert"] == "true" for row in rows] == expected[2]
    assert sum(expected[2]) > 3
    for row in rows:
        assert bool(row["top_features"]) == (row["alert"] == "true")
        if row["top_features"]:
            tops = json.loads(row["top_features"])
            assert {top["feature"] for top in tops} == set(NAMES)
            assert sum(top["share"] for top in tops) == pytest.approx(1, abs=1e-3)


COMPRESSORS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
    ".lz4": lambda data: _lz4(data),
}


def _lz4(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as out:
        out.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("pipe", [False, True])
def test_compressed_input_is_the_same(run: Any, sensors: Path, expected: Any, suffix: str, pipe: bool) -> None:
    packed = sensors.with_name("sensors.csv" + suffix)
    packed.write_bytes(COMPRESSORS[suffix](sensors.read_bytes()))
    if pipe:
        result = run("score", "-", "-x", "fault", stdin=packed.read_bytes())
    else:
        result = run("score", packed, "-x", "fault")
    assert scores_of(result.out) == expected[0]


@pytest.mark.parametrize("pipe", [False, True])
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_other_formats_give_the_same_scores(run: Any, sensors: Path, expected: Any, kind: str, pipe: bool) -> None:
    path = sensors.with_suffix("." + kind)
    if kind == "jsonl":
        path.write_bytes(as_jsonl(sensors))
    else:
        pa.parquet.write_table(pa.csv.read_csv(sensors), path)
    where = ["-"] if pipe else [path]
    result = run("score", *where, "-x", "fault", "--output-format", "csv", stdin=path.read_bytes() if pipe else b"")
    assert result.said == ""
    assert scores_of(result.out) == expected[0]


def test_json_lines_stay_as_they_were_up_to_the_last_brace(run: Any) -> None:
    lines = [b'{"b": {"c": 1.50}, "a": 2e0, "s": "caf\xc3\xa9 \\u00e9"}', b'{"a":3,"b":{"c":1}}', b"{ }"]
    result = run("score", "-", stdin=b"\n".join(lines) + b"\n")
    out = result.out.splitlines()
    assert out[0].startswith(lines[0][:-1] + b',"score":0.0,')
    assert out[2].startswith(b'{"score":')
    assert all(isinstance(json.loads(line)["alert"], bool) for line in out)


def test_nested_objects_are_features_of_their_own(run: Any, tmp_path: Path) -> None:
    data = b"".join(b'{"engine": {"heat": %d, "on": true}, "name": "x"}\n' % (i % 7) for i in range(50))
    run("score", "-", "--save", tmp_path / "m", stdin=data)
    assert svead_stream.load(tmp_path / "m").detector.feature_names_ == ["engine.heat", "engine.on"]


def test_an_empty_cell_of_a_csv_is_null_elsewhere(run: Any, tmp_path: Path) -> None:
    result = run("score", "-", "--output-format", "jsonl", stdin=b"a,b\n1,2\n,3\n")
    rows = [json.loads(line, parse_constant=pytest.fail) for line in result.lines]
    assert [(row["a"], row["b"]) for row in rows] == [(1.0, 2.0), (None, 3.0)]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".jsonl.zst", ".parquet"])
def test_the_name_of_the_output_chooses_its_format(run: Any, sensors: Path, expected: Any, suffix: str) -> None:
    out = sensors.with_name("scored" + suffix)
    result = run("score", sensors, "-x", "fault", "-o", out)
    assert (result.code, result.out, result.said) == (0, b"", "")
    if "parquet" in suffix:
        table = pa.parquet.read_table(out)
        assert table.schema.field("heat").type == pa.float64()
    else:
        stream = pa.input_stream(str(out))
        data = stream.read()
        if "csv" in suffix:
            table = pa.csv.read_csv(pa.BufferReader(data))
        else:
            table = pa.Table.from_pylist([json.loads(line) for line in data.splitlines()])
            assert isinstance(table["heat"][0].as_py(), float)
    assert table["score"].to_pylist() == expected[0]
    assert table["alert"].to_pylist() == expected[2]


def test_how_the_input_is_cut_into_blocks_changes_nothing(
    run: Any, sensors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run("score", sensors)
    monkeypatch.setattr(sources, "BLOCK", 700)
    monkeypatch.setattr(sources.Source.read, "__defaults__", (700,))
    cut = run("score", sensors)
    assert whole.out == cut.out


def test_several_files_are_one_stream(run: Any, sensors: Path, expected: Any, tmp_path: Path) -> None:
    lines = sensors.read_text().splitlines(keepends=True)
    (tmp_path / "a.csv").write_text("".join(lines[:400]))
    (tmp_path / "b.csv").write_text(lines[0] + "".join(lines[400:]))
    result = run("score", tmp_path / "a.csv", tmp_path / "b.csv", "-x", "fault")
    assert scores_of(result.out) == expected[0]
    assert result.out.count(b"score") == 1


def test_only_alerts_leaves_the_rest_behind(run: Any, sensors: Path, expected: Any) -> None:
    rows = parsed(run("score", sensors, "-x", "fault", "--only-alerts").out)
    assert len(rows) == sum(expected[2])
    assert {row["alert"] for row in rows} == {"true"}


def test_a_label_is_measured_and_never_learned(run: Any, sensors: Path, expected: Any, rows: Any) -> None:
    result = run("score", sensors, "--label", "fault")
    assert scores_of(result.out) == expected[0]
    truth, scores, alerts = (np.array(one)[256:] for one in (rows[1], expected[0], expected[2]))  # after the burn-in
    auc, ap = roc_auc_score(truth, scores), average_precision_score(truth, scores)
    assert f"ROC AUC {auc:.4f}, average precision {ap:.4f}" in result.err
    found = int((truth & alerts).sum())
    assert f"{found} of {truth.sum()} labelled rows among {alerts.sum()} alerts" in result.err


@pytest.mark.parametrize(
    "words", ["true false", "1.00 0.0", "Yes No", "anomaly normal", "1 0", "1.0 ?", "NaN 0", "<NA> unknown"]
)
def test_labels_are_numbers_or_words(run: Any, words: str) -> None:
    anomaly, normal = words.split()
    data = "a,y\n" + "".join(f"{i % 5},{normal if i % 9 else anomaly}\n" for i in range(500))
    result = run("score", "-", "--label", "y", stdin=data.encode())
    assert result.code == 0, result.err
    known = ("normal", "no", "0", "0.0", "false"), ("anomaly", "yes", "1", "1.0", "1.00", "true")
    told = [any(word.lower() in some for word in (anomaly, normal)) for some in known]
    expected = {
        (True, True): "ROC AUC",
        (False, True): "all rows that could be alerts are labelled as anomalies",
        (True, False): "no row that could be an alert is labelled as an anomaly",
        (False, False): "no row that could be an alert has a label",
    }[told[0], told[1]]
    assert expected in result.err


@pytest.mark.parametrize("cell", ["0.3", "2", "-1", "bad"])
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_what_is_no_label_is_named(run: Any, cell: str, format: str) -> None:
    cells = [cell, "1"] * 20 if cell == "bad" else [float(cell), 1.0] * 20
    table, out = pa.table({"a": range(40), "b": [1, 2] * 20, "y": cells}), pa.BufferOutputStream()
    (pa.csv.write_csv if format == "csv" else pa.parquet.write_table)(table, out)
    result = run("score", "-", "--label", "y", stdin=out.getvalue().to_pybytes())
    assert result.code == 2
    assert f"{cell}" in result.err
    assert "is none of these: 1, true, yes or anomaly; 0, false, no or normal; empty if nobody knows" in result.err


def test_a_saved_model_goes_on_as_if_it_had_never_stopped(run: Any, sensors: Path, expected: Any) -> None:
    lines = sensors.read_text().splitlines(keepends=True)
    first, second = "".join(lines[:500]), lines[0] + "".join(lines[500:])
    model = sensors.with_name("model.svead")
    run("score", "-", "-x", "fault", "--save", model, stdin=first.encode())
    result = run("score", "-", "--load", model, "--save", model, stdin=second.encode())
    assert (result.code, result.said) == (0, "")
    assert scores_of(result.out) == expected[0][499:]
    assert svead_stream.load(model).n_seen_ == 1_200


def test_without_learning_the_model_stays_as_it_is(run: Any, sensors: Path) -> None:
    model, again = sensors.with_name("model.svead"), sensors.with_name("again.svead")
    run("score", sensors, "-x", "fault", "--save", model)
    first = run("score", sensors, "--load", model, "--no-learn", "--save", again)
    assert again.read_bytes() == model.read_bytes()
    assert run("score", sensors, "--load", model, "--no-learn").out == first.out
    assert "--load one" in run("score", sensors, "--no-learn").err


def test_the_alert_rate_of_a_loaded_model_can_be_changed_but_not_its_detector(run: Any, sensors: Path) -> None:
    model = sensors.with_name("model.svead")
    run("score", sensors, "-x", "fault", "--save", model)
    few = parsed(run("score", sensors, "--load", model, "--only-alerts").out)
    many = parsed(run("score", sensors, "--load", model, "--only-alerts", "--alert-rate", "0.2").out)
    assert len(many) > 5 * len(few)
    result = run("score", sensors, "--load", model, "--n-anchors", "8")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "comes with the model" in result.err


def test_a_bare_detector_can_be_loaded(run: Any, sensors: Path, rows: Any, tmp_path: Path) -> None:
    detector = StreamingSVEAD(seed=1)
    detector.learn_many(rows[0][:300], feature_names=NAMES)
    svead_stream.save(detector, tmp_path / "d.svead")
    assert run("score", sensors, "--load", tmp_path / "d.svead", "-o", tmp_path / "out.csv").code == 0


def test_alerts_are_as_asked_for_in_new_and_in_loaded_models(
    run: Any, sensors: Path, rows: Any, tmp_path: Path
) -> None:
    def saved(*words: Any) -> tuple[float, int | None, bool]:
        result = run("score", sensors, *words, "--save", tmp_path / "saved.svead", "-o", tmp_path / "out.csv")
        assert result.code == 0, result.err
        model = svead_stream.load(tmp_path / "saved.svead")
        return model.alert_rate, model.window, model.protect

    detector = StreamingSVEAD(seed=1)
    detector.learn_many(rows[0][:300], feature_names=NAMES)
    bare, made = tmp_path / "bare.svead", tmp_path / "made.svead"
    svead_stream.save(detector, bare)
    asked = ["--alert-rate", "0.05", "--alert-window", "300", "--protect"]
    assert saved("-x", "fault") == (0.01, None, False)
    assert saved("-x", "fault", *asked) == (0.05, 300, True)
    assert saved("--load", bare) == (0.01, None, False)
    assert saved("--load", bare, *asked) == (0.05, 300, True)
    svead_stream.save(ConformalFilter(detector, 0.02), made)
    assert saved("--load", made) == (0.02, None, False)
    assert saved("--load", made, "--alert-window", "200") == (0.02, 200, False)
    assert saved("--load", made, "--protect") == (0.02, None, True)
    assert saved("--load", made, *asked) == (0.05, 300, True)


def test_categories_become_features_on_request_and_are_remembered(run: Any, sensors: Path) -> None:
    model = sensors.with_name("model.svead")
    run("score", sensors, "-x", "fault", "--one-hot", "mode", "--save", model)
    names = svead_stream.load(model).detector.feature_names_
    assert set(names) == {*NAMES, "mode=fast", "mode=slow"}
    more = b"heat,load,speed,mode\n0.1,0.1,0.1,fast\n0.1,0.1,0.1,odd\n0.1,0.1,0.1,\n"
    result = run("score", "-", "--load", model, "--save", model, stdin=more)
    assert (result.code, result.said) == (0, "")
    assert "mode=odd" in svead_stream.load(model).detector.feature_names_


def test_columns_can_be_chosen(run: Any, sensors: Path, tmp_path: Path) -> None:
    run("score", sensors, "--features", "heat,speed", "--save", tmp_path / "m", "-o", tmp_path / "o.csv")
    assert svead_stream.load(tmp_path / "m").detector.feature_names_ == ["heat", "speed"]
    for name, words in [("sped", "did you mean 'speed'?"), ("power", "there are time, heat, load, speed, mode, fault")]:
        result = run("score", sensors, "--features", f"heat,{name}")
        assert result.code == 2
        assert f"--features {name}: no such column; {words}" in result.err


def test_missing_cells_are_missing_values(run: Any, tmp_path: Path) -> None:
    data = "a;b\n" + "".join(f"{i % 7};{'' if i % 2 else 'NA' if i % 3 else i % 5}\n" for i in range(300))
    result = run("score", "-", "--save", tmp_path / "m", stdin=data.encode())
    assert (result.code, result.said) == (0, "")
    assert svead_stream.load(tmp_path / "m").detector.n_missing_ == sum(bool(i % 2 or i % 3) for i in range(300))


def test_a_new_field_in_json_lines_is_a_new_feature(run: Any, tmp_path: Path) -> None:
    data = b'{"a": 1}\n' * 100 + b'{"a": 1, "b": 2}\n' * 20000 + b'{"a": 1, "c": 2.5}\n' * 10
    result = run("score", "-", "--save", tmp_path / "m", stdin=data * 2)
    assert (result.code, result.said) == (0, "")
    assert svead_stream.load(tmp_path / "m").detector.feature_names_ == ["a", "b", "c"]


def test_a_report_is_written(run: Any, sensors: Path, tmp_path: Path, expected: Any) -> None:
    report = tmp_path / "report.html"
    run("score", sensors, "--label", "fault", "-o", tmp_path / "o.csv", "--report", report)
    data = json.loads(report.read_text().split('id="data">')[1].split("</script>")[0])
    assert data["rows"] == 1_200
    assert data["alerts"] == sum(expected[2]) == len(data["table"])
    alert = data["table"][0]
    i = alert["row"] - 1
    assert alert["where"] == f"{sensors}, line {i + 2}"
    assert alert["score"] == expected[0][i]
    assert expected[2][i]
    assert alert["context"]["mode"] in ("fast", "slow")
    assert {f["name"] for f in alert["features"]} == set(NAMES)
    low, middle, high = alert["features"][0]["usual"]
    assert low < middle < high
    assert data["settings"]["n_partitions"] == 24


@pytest.mark.parametrize("name", ["score", "alert"])
def test_a_column_of_ours_that_is_taken_needs_a_prefix(run: Any, name: str) -> None:
    data = f"{name},b\n1,2\n3,4\n".encode()
    result = run("score", "-", stdin=data)
    assert result.code == 2
    assert "give a --prefix" in result.err
    assert f"{name},b,svead_score,svead_p_value" in run("score", "-", "--prefix", "svead_", stdin=data).lines[0]


def test_a_csv_keeps_its_separator_line_ends_apart(run: Any) -> None:
    result = run("score", "-", stdin=b'a;"b c"\r\n1;2\r\n3;4')
    assert result.lines == ["a;b c;score;p_value;alert;incident;top_features", "1;2;0;1;false;;", "3;4;0;1;false;;"]


def test_a_csv_without_a_header_gets_names(run: Any) -> None:
    result = run("score", "-", "--no-header", stdin=b"1\t2\n3\t4\n")
    assert result.lines[0].startswith("column1\tcolumn2\tscore")
    assert len(result.lines) == 3


def test_cells_are_quoted_where_they_must_be(run: Any) -> None:
    result = run("score", "-", stdin=b'a,name\n1,"x, ""y"""\n2,z\n')
    assert parsed(result.out)[0]["name"] == 'x, "y"'


def test_files_with_other_columns_go_together_as_json_lines_only(run: Any, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("b,a\n2,1\n")
    (tmp_path / "3.csv").write_text("a,c\n1,3\n")
    paths = [tmp_path / f"{i}.csv" for i in (1, 2, 3)]
    assert run("score", *paths[:2]).lines[1:] == ["1,2,0,1,false,,", "1,2,0,1,false,,"]
    result = run("score", *paths)
    assert result.code == 1
    assert "column 'c' appears only after the first rows" in result.err
    result = run("score", *paths, "--output-format", "jsonl")
    assert [set(json.loads(line)) - {"score", "p_value", "alert"} for line in result.lines] == [
        {"a", "b"},
        {"a", "b"},
        {"a", "c"},
    ]


def test_a_model_of_other_features_is_not_for_this_file(run: Any, sensors: Path, tmp_path: Path) -> None:
    run("score", "-", "--save", tmp_path / "m", stdin=b"x,y\n1,2\n3,4\n")
    result = run("score", sensors, "--load", tmp_path / "m")
    assert result.code == 1
    assert "none of the model's features is among its columns (time, heat" in result.err
