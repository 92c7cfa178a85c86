"""The settings that each topic of a stream must have: its cluster, its number of partitions, its retention.

A cluster's own defaults suit none of them. Retention of a week would delete rows that are still in the window: the
samples topic is not a queue, it IS the state, and a worker that starts reads the window back from it. So brokers must
keep the samples of a stream

- without limit if a window is of a count of rows, or over everything: no span of time bounds the age of the oldest row;
- for the longest window + ``max_skew`` + ``worst_lag_seconds`` if all windows are of time. Retention goes by the time
  of the log, a window by event time, and a row may be ``max_skew`` ahead of the log. If event time stands still, since
  producers are silent, rows stay live while the clock of the log runs on: ``worst_lag_seconds`` is also the longest
  such silence that a stream survives.

Retirements are always kept without limit. A worker remembers a number of them, not those of a span of time, so that a
retired id stays retired however late its sample comes, and a worker that starts must find them all again.

Rows that no window needs any more are deleted by offset, which is exact (``deltaplane topics trim``, and the merger by
itself). A broker deletes whole files, so that the files of samples of a count window must not be longer than an eighth
of the window.

Retention by size is switched off, since a burst would push live rows out. All records bear the time at which the broker
appended them, so that neither retention nor the check of bogus dates depends on a client's clock.

Input topics have a codec of their own. A broker numbers the records of a batch itself if the batch is compressed, or if
the topic wants it compressed; otherwise it believes the offsets in the batch, and clients pass them on. With zstd,
batches of our own producers stay as they are, and batches of others become ones whose memory a client can bound. On
other topics batches stay compressed as they were sent.

A setting is *vital* if a stream without it may lose or miscount rows, or stand still; the others are wishes.

The cluster of a site has samples, retirements, receipts and dead letters. The central one has deltas, checkpoints,
models, queries, predictions, and the dead letters of these. No sample leaves its site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltaplane import limits
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file import kafka_properties as kafka
from deltaplane_services.definition_file.kafka_properties import MEGABYTE
from deltaplane_services.definition_file.settings import Cluster, ServiceSettings
from deltaplane_services.processors.topics import CENTRAL_TOPICS, SITE_TOPICS, TOPICS, Topic

__all__ = [
    "BROKER_SETTINGS",
    "INPUT_CODEC",
    "KAFKA_DEFAULTS",
    "LARGEST_BATCH_BYTES",
    "LEAST_SEGMENT_BYTES",
    "LONGEST",
    "LONGEST_SEGMENT_BYTES",
    "OTHER_CODECS",
    "RECORD_BYTES_BESIDE",
    "ROW_BYTES_BESIDE",
    "SEGMENT_BYTES",
    "SMALL_RECORD_BYTES",
    "UNLIMITED",
    "Rule",
    "TopicPlan",
    "least_in_sync",
    "plan_topics",
    "topic_name",
]

SMALL_RECORD_BYTES = 1_048_588
"""The largest batch of small records, in bytes: Kafka's own default."""

LARGEST_BATCH_BYTES = limits.MESSAGE_BYTES + 2 * MEGABYTE
"""The largest batch that any topic may admit, in bytes: every reader is ready to receive so much."""

SEGMENT_BYTES = 32 * MEGABYTE
"""Bytes of one file of checkpoints or models, and more if records are large. Compaction leaves the newest file alone,
and every start reads it whole: with Kafka's default of 1 GiB, a merger would start slowly."""

LEAST_SEGMENT_BYTES = 16 * MEGABYTE
"""The least bytes of one file of samples: more than the largest batch, and few files for a long window."""

LONGEST_SEGMENT_BYTES = 2**30
"""Kafka's own default."""

INPUT_CODEC = "zstd"
OTHER_CODECS = ("lz4", "gzip", "snappy")
"""Codecs that are as exact, but whose batches may unpack to far more than a reader can bound."""

KAFKA_DEFAULTS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "unclean.leader.election.enable": "false",
}
"""The settings of a topic without any of its own, by Kafka's documentation."""

BROKER_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""The settings of a broker that give a topic its defaults."""

UNLIMITED = "-1"
LONGEST = str(2**63 - 1)
"""Milliseconds of retention that mean no limit, too."""

RECORD_BYTES_BESIDE = 64 * 2**10
"""Bytes of a record of statistics beside the statistics: its key, its framing, and a model's positions of sources."""

ROW_BYTES_BESIDE = 64
"""Bytes of a row in the log beside its values, approximately: its id, its time, its label."""

assert 2 * limits.DEAD_LETTER_BYTES < SMALL_RECORD_BYTES, "a dead letter must fit its topic"


@dataclass(frozen=True)
class Rule:
    """The value with which one setting of a topic is made, and the other values that are allowed.

    - ``choices``: other texts that are allowed.
    - ``least``, ``most``: the bounds of a number; -1 stands for no limit.
    - ``risk``: what happens with a value that is not allowed, in words.
    - ``vital``: whether that may lose or miscount rows, or stop the stream; it does not from the number ``enough`` on.
    """

    value: str
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    risk: str = ""
    vital: bool = True
    enough: int | None = None

    def allows(self, found: str | None) -> bool:
        """Whether a topic may have the value ``found``, which is None if it has none."""
        if found == self.value or found in self.choices:
            return True
        if found is None or (self.least is None and self.most is None):
            return False
        number = _number(found)
        if number is None:
            return False
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    def is_vital(self, found: str | None) -> bool:
        """Whether the value ``found``, which is not allowed, may lose or miscount rows, or stop the stream."""
        number = None if found is None or self.enough is None else _number(found)
        return self.vital and not (number is not None and self.enough is not None and number >= self.enough)

    def __str__(self) -> str:
        """The values that are allowed, in words."""
        if self.least is None and self.most is None:
            return " or ".join((self.value, *self.choices))
        words = [f"at least {self.least}"] if self.least is not None else []
        words += [f"at most {self.most}"] if self.most is not None else []
        return " and ".join(words)


def _number(found: str) -> float | None:
    try:
        return float("inf") if found == UNLIMITED else int(found)
    except ValueError:
        return None


@dataclass(frozen=True)
class TopicPlan:
    """One topic as it must be: ``rules`` by setting, and ``tuning``, settings that it is made with but may change."""

    name: str
    partitions: int
    replication_factor: int
    rules: Mapping[str, Rule]
    tuning: Mapping[str, str]
    vital: bool = True

    @property
    def config(self) -> dict[str, str]:
        """Every setting with which the topic would be made if its cluster had no defaults."""
        return {**{name: rule.value for name, rule in self.rules.items()}, **self.tuning}

    def config_beside(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """The settings with which the topic must be made on a cluster with these defaults."""
        wanted = {name: rule.value for name, rule in self.rules.items() if not rule.allows(defaults.get(name))}
        return wanted | {name: value for name, value in self.tuning.items() if defaults.get(name) != value}


def topic_name(definition: StreamDefinition, topic: str) -> str:
    """The name of a topic on the brokers."""
    return f"{definition.name}.{topic}"


def plan_topics(settings: ServiceSettings, cluster: Cluster) -> tuple[TopicPlan, ...]:
    """Every topic that a cluster must have; all of them if the site's cluster is also the central one."""
    topics: tuple[str, ...] = SITE_TOPICS if cluster.name == "site" else CENTRAL_TOPICS
    if len(settings.clusters) == 1:
        topics = tuple(TOPICS)
    return tuple(_plan(settings, topic) for topic in topics)


def _plan(settings: ServiceSettings, topic: str) -> TopicPlan:
    definition, replicas, declared = settings.definition, settings.knobs.replication_factor, TOPICS[topic]
    rules = _rules(settings, declared)
    tuning: dict[str, str] = {}
    if replicas > 0:
        tuning["min.insync.replicas"] = str(least_in_sync(replicas))
    if declared.kept == "newest":
        tuning["min.cleanable.dirty.ratio"] = "0.1"
    segment = _sample_segment_bytes(definition) if declared.kept == "window" else None
    if segment is not None:
        tuning["segment.bytes"] = str(segment)
    partitions = 1 if declared.single else definition.partitions
    return TopicPlan(topic_name(definition, topic), partitions, replicas, rules, tuning, declared.state)


def _rules(settings: ServiceSettings, topic: Topic) -> dict[str, Rule]:
    """Setting to its rule, for one topic."""
    definition, vital = settings.definition, topic.state
    record_bytes = {
        "input": kafka.INPUT_BYTES,
        "small": SMALL_RECORD_BYTES,
        "statistics": kafka.statistics_record_bytes(definition),
    }[topic.records]
    rules = {
        "max.message.bytes": Rule(
            str(record_bytes),
            least=record_bytes,
            most=LARGEST_BATCH_BYTES,
            risk="larger records are refused, or cannot be read",
            vital=vital,
            enough=_enough_bytes(definition, topic),
        ),
        "message.timestamp.type": Rule(
            "LogAppendTime",
            risk="what is kept, and which dates are believed, would go by the clocks of clients",
            # Nothing is deleted by time if a topic is compacted, or kept without limit.
            vital=vital and (topic.kept == "lag" or (topic.kept == "window" and definition.nested_windows.timed)),
        ),
        "unclean.leader.election.enable": Rule(
            "false", risk="a broker without the newest records may lead, and what was counted be gone", vital=vital
        ),
    }
    if topic.from_outside:
        rules["compression.type"] = Rule(
            INPUT_CODEC,
            choices=OTHER_CODECS,
            risk="the broker believes the offsets inside a batch that is not packed, and rows with forged ones are lost"
            " or counted twice",
        )
    if not topic.compacted:
        retention = _retention_milliseconds(settings, topic)
        rules["cleanup.policy"] = Rule("delete", risk="records are deleted because others have their key", vital=vital)
        rules["retention.ms"] = (
            Rule(UNLIMITED, choices=(LONGEST,), risk=topic.risk, vital=vital)
            if retention is None
            else Rule(str(retention), least=retention, risk=topic.risk, vital=vital)
        )
        rules["retention.bytes"] = Rule(UNLIMITED, risk=f"in a burst {topic.risk}", vital=vital)
    elif topic.kept == "newest":
        segment_bytes = max(SEGMENT_BYTES, 4 * record_bytes)
        rules["cleanup.policy"] = Rule("compact", risk="the newest one is deleted once it is old")
        rules["segment.bytes"] = Rule(
            str(segment_bytes),
            least=record_bytes,
            most=4 * segment_bytes,
            risk="what has been overwritten is read again at every start",
            vital=False,
        )
    else:
        # Their keys seldom repeat, so compaction keeps them for ever; an operator may choose to let old ones go.
        choices = ("compact,delete", "delete,compact")
        rules["cleanup.policy"] = Rule("compact", choices=choices, risk="repeats are not taken out", vital=False)
    return rules


def _enough_bytes(definition: StreamDefinition, topic: Topic) -> int:
    """The bytes of a record with which a stream still works: without large batches, and without spare room."""
    if topic.records != "statistics":
        return SMALL_RECORD_BYTES
    return kafka.delta_bytes(definition) + RECORD_BYTES_BESIDE


def _sample_segment_bytes(definition: StreamDefinition) -> int | None:
    """Bytes of one file of samples: an eighth of a partition's share of a count window; None for other windows."""
    nested_windows = definition.nested_windows
    rows = [window.length for window in nested_windows.windows if window.counted]
    if len(rows) < len(nested_windows.windows):
        return None
    row_bytes = 8 * len(definition.features) + ROW_BYTES_BESIDE
    share = max(rows) * row_bytes // definition.partitions // 8
    return min(max(LEAST_SEGMENT_BYTES, share), LONGEST_SEGMENT_BYTES)


def _retention_milliseconds(settings: ServiceSettings, topic: Topic) -> int | None:
    """The milliseconds for which a record must be kept; None for ever."""
    lag = int(settings.knobs.worst_lag_seconds * 1000)
    if topic.kept == "for ever":
        return None
    if topic.kept != "window":
        return lag
    longest = settings.definition.nested_windows.longest_milliseconds
    retention = None if longest is None else longest + settings.definition.max_skew_milliseconds + lag
    # To a log that counts milliseconds in int64, so many years are for ever.
    return None if retention is None or retention >= 2**62 else retention


def least_in_sync(replicas: int) -> int:
    """The number of replicas that must have a record before it counts: two of three, so that one may be lost."""
    return 2 if replicas >= 3 else 1
