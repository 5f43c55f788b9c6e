"""Where a partition goes on, decided from what is committed, saved and there: every case in a table."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError
from svead_kafka import Options, StateError
from svead_kafka.journal import Journal, Mark
from svead_kafka.settling import DELETED, MOVED, TRUNCATED, Gap, Known, settle
from svead_kafka.state_topic import Found, Saved

SOURCE = TopicPartition("in", 0)
OPTIONS = Options(input=["in"], output="out")
ANEW = Options(input=["in"], output="out", if_changed="restart")
LATEST = Options(input=["in"], output="out", start="latest")
OTHERS = OPTIONS.fingerprint | {"time": "t"}
OURS, OTHER = Mark("a", 0), Mark("b", 0)


def known(
    saved: int | None, committed: int | None, mark: Mark | None = OURS, bounds: tuple[int, int] = (0, 1000), **more: Any
) -> Known:
    """A partition of topic "now", with a checkpoint at `saved` and a model beyond it."""
    checkpoint = None
    if saved is not None:
        about = {"topic_id": more.get("then", "now"), "partitions": 1}
        options = more.get("options", OPTIONS.fingerprint)
        checkpoint = {"offset": saved, "life": "a", "options": options, **about}
        if more.get("old"):
            del checkpoint["topic_id"], checkpoint["partitions"]
    models = {None: Saved(saved + more.get("ahead", 0), (0,), more.get("answers", 0))} if saved is not None else {}
    found = Found(checkpoint, models, more.get("journal"))
    return Known(SOURCE, found, committed, mark, *bounds, more.get("now", "now"), 1, more.get("grown", False))


@pytest.mark.parametrize(
    ("case", "options", "offset", "is_new", "gaps"),
    [
        pytest.param(known(50, 80), OPTIONS, 80, False, [], id="as it was left"),
        pytest.param(known(80, 80), OPTIONS, 80, False, [], id="all saved"),
        pytest.param(known(50, 80, None, old=True), OPTIONS, 80, False, [], id="from before marks"),
        pytest.param(known(None, None, None), OPTIONS, 0, True, [], id="new group"),
        pytest.param(known(None, None, None, (7, 9)), OPTIONS, 7, True, [], id="new group, old topic"),
        pytest.param(known(None, None, None), LATEST, 1000, True, [], id="new group at the end"),
        pytest.param(known(None, None, None, grown=True), LATEST, 0, True, [], id="new partition"),
        pytest.param(known(50, 30), OPTIONS, 30, True, [], id="moved back"),
        pytest.param(known(50, 60, ahead=20), OPTIONS, 60, True, [], id="moved back before a model"),
        pytest.param(known(50, 90, None), OPTIONS, 90, False, [Gap(SOURCE, 50, 90, MOVED)], id="moved on"),
        pytest.param(known(50, 80, OURS, (90, 1000)), OPTIONS, 90, False, [Gap(SOURCE, 80, 90, DELETED)], id="deleted"),
        pytest.param(
            known(50, 80, None, (90, 1000)),
            OPTIONS,
            90,
            False,
            [Gap(SOURCE, 50, 80, MOVED), Gap(SOURCE, 80, 90, DELETED)],
            id="moved on and deleted",
        ),
        pytest.param(known(50, None, None), OPTIONS, 50, False, [], id="offsets gone"),
        pytest.param(known(50, None, None, ahead=20), OPTIONS, 70, False, [], id="offsets gone, model ahead"),
        pytest.param(known(50, 80, then="then"), OPTIONS, 0, True, [], id="topic made again"),
        pytest.param(known(50, None, None, then="then"), OPTIONS, 0, True, [], id="topic and offsets made again"),
        pytest.param(known(50, 80, bounds=(0, 10), then="then"), OPTIONS, 0, True, [], id="shorter topic made again"),
        pytest.param(known(50, 5, None, then="then"), OPTIONS, 5, True, [], id="moved in a topic made again"),
        pytest.param(known(50, 80, then=None), OPTIONS, 80, False, [], id="broker without ids before"),
        pytest.param(known(50, 80, now=None), OPTIONS, 80, False, [], id="broker without ids now"),
        pytest.param(known(None, 80), ANEW, 80, True, [], id="state lost, new models allowed"),
        pytest.param(known(None, 80, None), OPTIONS, 80, True, [], id="offsets of others"),
        pytest.param(known(50, 80, options={}), ANEW, 80, True, [], id="other options, new models allowed"),
        pytest.param(known(50, 80, OTHER), ANEW, 80, True, [], id="another life, new models allowed"),
    ],
)
def test_where_a_partition_goes_on(case: Known, options: Options, offset: int, is_new: bool, gaps: list[Gap]) -> None:
    settled = settle(case, options, OPTIONS.fingerprint)
    assert settled == (offset, is_new, gaps)
    checkpoint = case.found.checkpoint
    assert checkpoint is not None
    assert checkpoint["options"] == OPTIONS.fingerprint
    assert (checkpoint["life"] != "a") == is_new
    if is_new:
        assert (checkpoint["offset"], checkpoint["topic_id"], case.found.models) == (offset, case.topic_id, {})
    assert "topic_id" in checkpoint


@pytest.mark.parametrize(
    ("case", "told"),
    [
        pytest.param(known(None, 80), "has no models of in/0, though the group has committed offset 80", id="lost"),
        pytest.param(known(50, 80, options=OTHERS), "were made with other options", id="options"),
        pytest.param(
            known(50, None, None, options=OTHERS),
            "were made with other options",
            id="options without offsets",
        ),
        pytest.param(known(50, 80, OTHER), "lacks answers or models that were committed with offset 80", id="life"),
        pytest.param(known(50, 30, OTHER), "lacks answers or models that were committed with offset 30", id="back"),
        pytest.param(known(50, 80, Mark("a", 3), journal=Journal("a", 2)), "lacks answers or models", id="journal"),
        pytest.param(known(50, 80, OTHER, then="then"), "lacks answers or models", id="life of a topic made again"),
    ],
)
def test_what_would_mean_new_models_is_refused(case: Known, told: str) -> None:
    with pytest.raises(StateError, match=told) as caught:
        settle(case, OPTIONS, OPTIONS.fingerprint)
    assert "--if-changed restart" in str(caught.value)


def test_offsets_beyond_the_end_are_tried_again() -> None:
    with pytest.raises(KafkaTimeoutError, match=r"read in/0 up to offset 80, but it ends at 70.*kafka replay"):
        settle(known(50, 80, bounds=(0, 70)), OPTIONS, OPTIONS.fingerprint)


def test_gaps_say_what_happened_where_and_what_to_do() -> None:
    texts = [str(Gap(SOURCE, 3, 7, reason)) for reason in (DELETED, MOVED, TRUNCATED)]
    assert all("in/0: offsets 3 to 6" in text for text in texts)
    assert "longer retention" in texts[0]
    assert "unclean.leader.election.enable" in texts[2]
