"""The oldest Kafka that is promised: topics are created, events scored once, models restored, answers taken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker import Cluster, OldCluster
from clusters import started
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from streams import Stream, events, sum_of, until, work, working
from svead_kafka import ConfigurationError, Worker


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from started(OldCluster(tmp_path_factory.mktemp("kafka-oldest")))


def test_a_worker_at_the_oldest_broker_creates_topics_restores_models_and_takes_answers(oldest: Cluster) -> None:
    stream = Stream(oldest.bootstrap, "oldest")
    keys = [b"k%d" % (i % 7) for i in range(600)]
    stream.send(events(600), keys=keys)
    short = {"model_per": "key", "burn_in": 0, "alert_rate": 0.1, "hold_off": 5}
    straight, broken = stream.options("straight", **short), stream.options("broken", **short, snapshot_every=50)
    work(stream, straight, 600)
    with working(broken) as worker:
        stream.wait_committed(broken, 100)
        worker._leave = lambda: None  # type: ignore[method-assign]  # as after a crash: nothing is saved on leaving
    work(stream, broken, 600)
    assert stream.scored(broken) == stream.scored(straight)
    assert len(stream.scored(broken)) == 600
    assert stream.told(broken) == stream.told(straight) != []

    taught = stream.options("taught", **short, feedback=f"{stream.name}-answers")
    with working(taught) as worker:
        stream.wait_committed(taught, 600)
        found = list(stream.scored(taught).values())[:20]
        stream.answer(taught, [{"is_anomaly": one["alert"], "source": one["source"]} for one in found])
        until(lambda: sum_of(worker.metrics.answers) == 20)


def test_topics_at_the_oldest_broker_have_the_settings_that_it_knows(oldest: Cluster) -> None:
    stream = Stream(oldest.bootstrap, "settings")
    stream.send(events(4))
    options = stream.options()
    work(stream, options, 4)
    admin = KafkaAdminClient(bootstrap_servers=oldest.bootstrap)
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in (options.output, options.state)]
    found = admin.describe_configs(resources, config_filter="all")["topic"]
    admin.close()
    assert found[options.output]["message.timestamp.difference.max.ms"]["value"] == str(2**63 - 1)
    assert found[options.state]["cleanup.policy"]["value"] == "compact"


def test_a_broker_that_is_older_still_is_refused(stream: Stream) -> None:
    with pytest.raises(ConfigurationError, match=r"is of Kafka 2\.4, .* 2\.5 or newer is needed"):
        Worker(stream.options(client={"api_version": (2, 4)})).run()
