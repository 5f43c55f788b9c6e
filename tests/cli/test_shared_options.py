"""Options that commands share: the same names, defaults and checks everywhere, and what became of old ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from svead_stream import load
from svead_stream.cli import cli
from svead_stream.parameters import ALERTS, BATCH, DETECTOR, Parameter

PARAMETERS = (*ALERTS, *DETECTOR)
SEEDS = {"score": 0, "watch": 0, "kafka": None}  # a file has the same scores each time; a Kafka model its own seed


def options_of(*words: str) -> dict[str, click.Option]:
    """The options of a command, by their long names."""
    command: Any = cli
    for word in words:
        command = command.get_command(click.Context(command), word)
    return {name: one for one in command.params if isinstance(one, click.Option) for name in one.opts}


def spelled(parameter: Parameter) -> str:
    return "--" + parameter.name.replace("_", "-")


@pytest.mark.parametrize("command", ["score", "watch", "kafka"])
def test_every_parameter_is_an_option_with_its_name_default_and_choices(command: str) -> None:
    options = options_of(command)
    for parameter in PARAMETERS:
        option = options[spelled(parameter)]
        assert option.name == parameter.name
        assert option.default == (SEEDS[command] if parameter.name == "seed" else parameter.default)
        assert option.help
        assert option.help.startswith(parameter.help)
        if parameter.choices and parameter.kind is str:
            assert isinstance(option.type, click.Choice)
            assert tuple(option.type.choices) == parameter.choices


def test_parameters_of_the_batch_detector_are_options_of_spark() -> None:
    options = options_of("spark", "score")
    assert {parameter.name: options[spelled(parameter)].default for parameter in BATCH} == {
        "n_partitions": 100,
        "n_anchors": 16,
        "scaling": "none",
    }


@pytest.mark.parametrize("command", [["score"], ["watch"], ["kafka"], ["spark", "score"]])
def test_features_are_chosen_and_left_out_by_the_same_options(command: list[str]) -> None:
    options = options_of(*command)
    assert options["-f"] is options["--features"]
    assert options["-x"] is options["--ignore"]


@pytest.mark.parametrize("command", ["score", "watch", "kafka"])
@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--n-anchors", "0", "n_anchors=0: it must be a whole number from 1 to 65536"),
        ("--alert-rate", "2", "alert_rate=2.0: it must be a number between 0 and 1"),
        ("--memory", "inf", "memory=inf: it must be None or a number"),
        ("--memory", "long", "'long' is neither a number of events nor a duration such as 2d nor 'none'"),
        ("--scaling", "minmax", "'minmax' is not one of 'none', 'std', 'iqr', 'range', 'log', 'mixed'"),
        ("--normal-after", "soon", "'soon' is neither a number of events nor a duration such as 2d"),
        ("--hold-off", "0", "hold_off='0': it must be more than 0"),
        ("--incident-rate", "often", "incident_rate='often': 'often' is no rate"),
        ("--top-features", "-1", "top_features=-1: it must be a whole number of 0 or more"),
    ],
)
def test_a_wrong_value_is_a_line_that_says_what_is_allowed(
    run: Any, sensors: Path, command: str, option: str, value: str, words: str
) -> None:
    rest = ["--input", "in", "--output", "out"] if command == "kafka" else [sensors]
    result = run(command, *rest, option, value)
    assert result.code == 2
    assert words in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "old", "words"),
    [
        ("score", "--partitions", "--partitions is now --n-partitions"),
        ("watch", "--anchors", "--anchors is now --n-anchors"),
        ("score", "--top", "--top is now --top-features"),
        ("watch", "--columns", "--columns is now --features"),
        ("score", "-c", "-c is now -f"),
        ("spark score", "--columns", "--columns is now --features"),
        ("spark score", "--partitions", "--partitions is now --n-partitions"),
        ("score", "--half-life", "--half-life is gone: see --memory"),
        ("watch", "--refresh", "--refresh is gone: see --normal-after"),
        ("kafka", "--event", "--event is now --include-event"),
        ("kafka", "--window", "--window is gone: see --normal-after"),
        ("kafka", "--start-anew", "--start-anew is gone: see --normal-after"),
    ],
)
def test_an_old_spelling_is_a_line_that_names_the_new_one(run: Any, command: str, old: str, words: str) -> None:
    result = run(*command.split(), old, "3")
    assert result.code == 2
    assert result.err == f"svead-stream: {words} (try 'svead-stream {command} --help')\n"


def test_protection_is_switched_off_for_a_loaded_model(run: Any, sensors: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.svead", tmp_path / "second.svead"
    assert run("score", sensors, "--protect", "--save", first, "-o", tmp_path / "o").code == 0
    assert run("score", sensors, "--load", first, "--no-protect", "--save", second, "-o", tmp_path / "o").code == 0
    assert [load(path).protect for path in (first, second)] == [True, False]


def test_a_label_that_is_not_there_and_a_wrong_seed_are_named_as_they_were_given(run: Any, sensors: Path) -> None:
    assert "--label nope: no such column" in run("score", sensors, "--label", "nope").err
    assert "seed=-1: it must be a whole number" in run("demo", "--seed", "-1").err


@pytest.mark.parametrize(("command", "option"), [("spark score x", "--half-life"), ("inspect x", "--top")])
def test_an_option_that_a_command_never_had_is_just_unknown(run: Any, command: str, option: str) -> None:
    result = run(*command.split(), option, "3")
    assert result.code == 2
    assert f"No such option '{option}'" in result.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("scor x", "No such command 'scor'; did you mean 'score'?"),
        ("kafka taill", "No such command 'taill'; did you mean 'tail'?"),
        ("score x --featuers a", "No such option '--featuers'; did you mean '--features'?"),
        ("score --no-lern x", "No such option '--no-lern'; did you mean '--no-learn'?"),
        ("--versoin", "No such option '--versoin'; did you mean '--version'?"),
        ("score --scaling Ragne x", "'range', 'log', 'mixed'; did you mean 'range'?"),
        ("kafka --start latets", "'latest'; did you mean 'latest'?"),
        ("bogus", "No such command 'bogus'"),
    ],
)
def test_what_is_nearly_right_gets_a_suggestion(run: Any, words: str, told: str) -> None:
    result = run(*words.split())
    assert result.code == 2
    assert f"{told} (try 'svead-stream" in result.err


def test_names_come_with_commas_or_one_by_one(run: Any, sensors: Path, tmp_path: Path) -> None:
    said = [["-f", "heat,speed"], ["--features", "heat", "-f", " speed "]]
    first, second = (run("score", sensors, *words).out for words in said)
    assert first == second


@pytest.fixture
def connector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another package, not known to this one, whose metadata announce a command; its folder."""
    about = tmp_path / "svead_echo-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: svead-echo\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[svead_stream.commands]\necho = svead_echo.cli:echo [loud]\n")
    package = tmp_path / "svead_echo"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield package
    for name in [name for name in sys.modules if name.startswith("svead_echo")]:
        del sys.modules[name]


def test_a_package_can_bring_a_command(run: Any, connector: Path) -> None:
    (connector / "cli.py").write_text(
        '"""Say it again.\n\nAnd more."""\nimport click\n@click.command()\ndef echo():\n    click.echo("again")\n'
    )
    shown = run("--help")
    assert "echo     Say it again.\n" in shown.out.decode()
    assert "svead_echo" not in sys.modules
    assert run("echo").out == b"again\n"


@pytest.mark.parametrize(
    "source",
    ["import no_such_library", "import click\n@click.command()\ndef echo():\n    import no_such_library"],
    ids=["when it is loaded", "when it runs"],
)
def test_what_a_command_lacks_is_a_line_that_names_the_extra(run: Any, connector: Path, source: str) -> None:
    (connector / "cli.py").write_text(source)
    result = run("echo")
    assert result.code == 1
    assert result.err == (
        "svead-stream: 'echo' needs no_such_library, which is not installed: pip install 'svead-echo[loud]'\n"
    )
