"""Everything that can be said to a worker, in one frozen object that the command line and the library share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from svead_kafka.errors import ConfigurationError
from svead_stream.cli.serve import check_serve
from svead_stream.parameters import (
    ALERT_RATE,
    ALERT_WINDOW,
    ALERTS,
    BURN_IN,
    DETECTOR,
    HOLD_OFF,
    INCIDENT_RATE,
    MODEL_VERSION,
    PROTECT,
    TOP_FEATURES,
    Parameter,
    check_alerts,
    check_detector,
)

if TYPE_CHECKING:
    from svead_kafka.schemas import Directory, File, Registry

TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True)
class Options:
    """What a worker reads, writes and does.

    Parameters
    ----------
    bootstrap
        Brokers to ask for the others, ``host:port`` separated by commas.
    input
        Topics to read events from; regular expressions also take in topics that are created later.
    output
        Topic for scored events.
    group
        Consumer group. Workers of one group share the partitions, and the models belong to the group.
    dead_letters
        Topic for messages that are no events; without one they are counted and logged.
    incidents
        Topic for what is told of incidents: when they open, while they go on and when they are over.
    feedback
        Topic with people's answers: which events were anomalies and which false alarms. Models learn from them.
    teach_false_alarms
        Whether an event that was a false alarm is also learned as normal.
    state
        Compacted topic for the models; by default the output topic with ``-state`` behind it.
    value_format
        What the values of messages are: ``json`` or ``avro``.
    schema
        With Avro, where the schemas are. A file (``.avsc``): the schema of all messages, which are bare bodies. A
        directory of files ``<id>.avsc``, or the address of a schema registry: messages have the wire format with a
        schema id. An address may hold a password, so it is never printed.
    features
        The features to use, dotted names; all numbers and booleans when empty. A name stands for all below it.
    ignore
        Names not to use.
    time
        Field that says when an event happened, a dotted name: ISO 8601 text, or s, ms, us or ns since 1970. It is no
        feature. By default Kafka's own time stamp.
    start
        Where a group without offsets begins: ``earliest`` or ``latest``.
    model_per
        ``partition``: one model for each input partition; ``key``: one for each message key.
    max_models
        With ``model_per="key"``, how many models are held in memory; the others wait in the state topic.
    alert_rate
        The share of events to alert on.
    incident_rate
        Incidents to tell of, as a share of the events or in time such as ``5/day``; by default half of `alert_rate`.
    hold_off
        Events, or time such as ``15m``, without alerts after which an incident is over; by default as the alert rate
        needs it.
    burn_in
        First events of a model, or time such as ``1d``, without alerts.
    alert_window
        How many recent scores to rank among; by default as many as the alert rate needs.
    protect
        Whether to keep alerts from being learned.
    top_features
        How many features an alert or an incident names.
    on_incident
        Command that is run, after the commit, when an incident opens or closes; it gets the record on standard input.
    webhook
        Address that such a record is posted to. Like the command it may hold secrets, so neither is ever printed.
    snapshot_every
        A model is saved when this many offsets have passed since the first event it has not saved.
    commit_every
        Milliseconds between transactions while the stream is slow; a fast one commits sooner.
    max_batch
        Most events in a transaction. Slow models get fewer, so that a transaction takes about a second.
    max_event_bytes
        Messages larger than this (key, value and headers) are dead letters.
    include_event
        Whether a scored event carries the event itself.
    create_topics
        Whether to create the output, incidents, dead-letter, feedback and state topics where they are missing.
    detector
        Parameters of the detector, as its constructor takes them.
    if_changed
        What to do when the saved models were made with other parameters, or are gone: ``fail``, or ``restart`` with
        new ones.
    client
        Properties of the Kafka clients, by kafka-python's names. May hold secrets, so it is never printed.
    transactional_id
        Name of this worker's transactions, different for each worker of the group. A name that outlives a restart
        lets the next process finish at once what the last one left open; by default a random one.
    instance_id
        Name of this worker in the group, different for each worker, if it is to be a static member: one that comes back
        within the session timeout finds its partitions where they were, and the others are not disturbed. It is also
        the default for the name of its transactions.
    until_end
        Whether to score what is there when the worker starts, and then to leave.
    max_retries
        Attempts in a row before the worker gives up.
    stall_timeout
        Seconds without progress after which the process ends itself.
    metrics_port, metrics_host
        Where ``/metrics``, ``/healthz`` and ``/readyz`` are found; no port, no server.
    serve
        Where the report is shown live: ``PORT`` on this machine, or ``HOST:PORT``.
    serve_token
        What visitors of that page must know. For hosts but this one it is made and logged if none is given.
    """

    bootstrap: str = "localhost:9092"
    input: tuple[str, ...] = ()
    output: str = ""
    group: str = "svead"
    dead_letters: str | None = None
    incidents: str | None = None
    feedback: str | None = None
    teach_false_alarms: bool = False
    state: str = ""
    value_format: str = "json"
    schema: str | None = field(default=None, repr=False)
    features: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    time: str | None = None
    start: str = "earliest"
    model_per: str = "partition"
    max_models: int = 1000
    alert_rate: float = ALERT_RATE.default
    incident_rate: float | str | None = INCIDENT_RATE.default
    hold_off: float | str | None = HOLD_OFF.default
    burn_in: float | str = BURN_IN.default
    alert_window: int | None = ALERT_WINDOW.default
    protect: bool = PROTECT.default
    top_features: int = TOP_FEATURES.default
    on_incident: str | None = field(default=None, repr=False)
    webhook: str | None = field(default=None, repr=False)
    snapshot_every: int = 10_000
    commit_every: int = 100
    max_batch: int = 5000
    max_event_bytes: int = 900_000
    include_event: bool = True
    create_topics: bool = False
    detector: Mapping[str, Any] = field(default_factory=dict)
    if_changed: str = "fail"
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    transactional_id: str | None = None
    instance_id: str | None = None
    until_end: bool = False
    max_retries: int = 8
    stall_timeout: float = 120.0
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    serve: str | None = None
    serve_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.state and self.output:
            object.__setattr__(self, "state", f"{self.output}-state")
        for name in ("input", "features", "ignore"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ConfigurationError(f"{name} must be a list of names, not the string {value!r}")
            object.__setattr__(self, name, tuple(value))
        for missing, what in ((self.input, "an input topic"), (self.output, "an output topic")):
            if not missing:
                raise ConfigurationError(f"the worker needs {what}: --input EVENTS --output SCORED")
        self._check_topics()
        self._check_choices()
        self._check_schema()
        self._check_parameters()

    def _check_topics(self) -> None:
        for topic in self.own_topics:
            if not TOPIC.fullmatch(topic):
                raise ConfigurationError(f"{topic!r} is no topic name; use letters, digits, '.', '_' and '-'")
        for pattern in self.input:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigurationError(
                    f"{pattern!r} is neither a topic name nor a regular expression: {error}"
                ) from None
        every = [*self.input, *self.own_topics]
        twice = sorted({topic for topic in every if every.count(topic) > 1})
        if twice:
            raise ConfigurationError(
                f"topic {twice[0]!r} is used twice; input, output, incidents, dead letters, feedback and state "
                "must differ"
            )

    @property
    def own_topics(self) -> list[str]:
        """Every topic that the worker needs beside the input."""
        return [*self.written, *([self.feedback] if self.feedback else []), self.state]

    @cached_property
    def pattern(self) -> str | None:
        """What names of input topics match, if one was given as a pattern; topics of the worker's own never do."""
        if all(TOPIC.fullmatch(name) for name in self.input):
            return None
        names = "|".join(re.escape(name) if TOPIC.fullmatch(name) else f"(?:{name})" for name in self.input)
        own = "|".join(map(re.escape, self.own_topics))
        return rf"(?!(?:{own})\Z)(?:{names})\Z"

    def reads(self, topic: str) -> bool:
        """Whether a topic is one of the input."""
        if self.pattern is None:
            return topic in self.input
        return not topic.startswith("__") and re.match(self.pattern, topic) is not None

    @property
    def written(self) -> list[str]:
        """The topics for others to read: scored events, incidents and dead letters, as far as there are any."""
        return [topic for topic in (self.output, self.incidents, self.dead_letters) if topic]

    def _check_choices(self) -> None:
        choices = {
            "start": ("earliest", "latest"),
            "value_format": ("json", "avro"),
            "model_per": ("partition", "key"),
            "if_changed": ("fail", "restart"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ConfigurationError(f"{name} must be {' or '.join(allowed)}, not {getattr(self, name)!r}")
        positive = ("max_models", "snapshot_every", "max_batch", "max_event_bytes", "max_retries", "stall_timeout")
        for name in positive:
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} must be positive, not {getattr(self, name)!r}")
        if self.commit_every < 0:
            raise ConfigurationError(f"commit_every must not be negative, not {self.commit_every!r}")
        if self.time in self.features:
            raise ConfigurationError(f"{self.time!r} is the time of the events: it cannot be a feature, too")

    def _check_schema(self) -> None:
        if (self.value_format == "avro") != bool(self.schema):
            raise ConfigurationError(
                "--value-format avro and --schema go together: give a file (.avsc) for bare bodies, or for messages "
                "with a schema id a directory of <id>.avsc or the address of a schema registry"
            )
        _ = self.schemas  # so that what cannot be read is found at once

    @cached_property
    def schemas(self) -> File | Directory | Registry | None:
        """Where the schemas of messages come from; None if they need none. Files are read once."""
        if not self.schema:
            return None
        from svead_kafka.schemas import source

        return source(self.schema)

    def _check_parameters(self) -> None:
        try:
            check_detector(**self.detector)
            check_alerts(**{parameter.name: getattr(self, parameter.name) for parameter in ALERTS})
            check_serve(self.serve, self.serve_token)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What the numbers in a model depend on; saved beside it, and compared when it is restored.

        All parameters in effect are in it, those that were not given too: another version may have other defaults.
        """
        return {
            "model_version": MODEL_VERSION,
            "model_per": self.model_per,
            "features": list(self.features),
            "ignore": list(self.ignore),
            "time": self.time,
            "max_event_bytes": self.max_event_bytes,
            "alert_rate": self.alert_rate,
            "incident_rate": _plain(INCIDENT_RATE, self.incident_rate),
            "hold_off": _plain(HOLD_OFF, self.hold_off),
            "burn_in": _plain(BURN_IN, self.burn_in),
            "alert_window": self.alert_window,
            "protect": self.protect,
            "detector": {parameter.name: parameter.default for parameter in DETECTOR} | dict(self.detector),
            # Models from before there were answers stay valid.
            **({"teach_false_alarms": True} if self.teach_false_alarms else {}),
            # And so do those of JSON events.
            **({"value_format": "avro", "schema": self.schemas.fingerprint} if self.schemas else {}),
        }

    @classmethod
    def names(cls) -> list[str]:
        """All option names."""
        return [one.name for one in fields(cls)]


def _plain(parameter: Parameter, value: float | str | None) -> float | str | None:
    """A number of events as a number, however it was given; time, and None, as they are."""
    assert parameter.parse is not None
    if value is None or (found := parameter.parse(value)).in_time:
        return value
    return found.amount


def describe(options: Options, counts: Mapping[str, int]) -> list[str]:
    """What a worker with these options will do, in a few lines without secrets."""
    inputs = ", ".join(f"{topic} ({counts[topic]} partitions)" for topic in counts if options.reads(topic))
    used = ", ".join(options.features) if options.features else "all numbers and booleans"
    ignored = f", not {', '.join(options.ignore)}" if options.ignore else ""
    time = f"the field {options.time}" if options.time else "Kafka's time stamp"
    avro = f"events are Avro, schemas from {options.schemas.name}; " if options.schemas else ""
    dead = f"to {options.dead_letters}" if options.dead_letters else "counted and logged"
    incidents = options.incidents
    changes = f", incidents to {incidents} ({counts[incidents]} partitions)" if incidents else ""
    protected = ", which are not learned" if options.protect else ""
    most = f", at most {options.max_models} in memory" if options.model_per == "key" else ""
    return [
        f"reading {inputs} at {options.bootstrap} as group {options.group}; new groups begin at the {options.start}",
        f"writing scored events to {options.output} ({counts[options.output]} partitions){changes}; no events: {dead}",
        f"{avro}features: {used}{ignored}; time: {time}",
        f"alerts on {options.alert_rate:.3%} of events{protected}{_describe_alerts(options)}",
        *_describe_answers(options, counts),
        f"one model per {options.model_per}{most}, restored from {options.state}, "
        f"saved every {options.snapshot_every} offsets",
    ]


def _describe_answers(options: Options, counts: Mapping[str, int]) -> list[str]:
    if options.feedback is None:
        return []
    taught = ", false alarms are learned as normal" if options.teach_false_alarms else ""
    return [f"answers from {options.feedback} ({counts[options.feedback]} partitions){taught}"]


def _describe_alerts(options: Options) -> str:
    """What was said of alerts and incidents; the rest is as usual."""
    rate, hold_off, burn_in = (
        _plain(parameter, getattr(options, parameter.name)) for parameter in (INCIDENT_RATE, HOLD_OFF, BURN_IN)
    )
    first = "" if burn_in is None else f", none in the first {_in_words(burn_in)} of a model"
    said = [] if rate is None else [rate if isinstance(rate, str) else f"on {rate:.3%} of events"]
    said += [] if hold_off is None else [f"over after {_in_words(hold_off)} without alerts"]
    incidents = f"; incidents {', '.join(said)}" if said else ""
    channels = {"a command": options.on_incident, "a webhook": options.webhook}
    told = " and ".join(name for name, given in channels.items() if given)
    return first + incidents + (f"; {told} will be told of incidents" if told else "")


def _in_words(span: float | str) -> str:
    return span if isinstance(span, str) else f"{span:g} events"
