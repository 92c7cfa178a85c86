"""What each topic of a stream must be: on which cluster, with how many partitions, kept how long.

A cluster's own defaults suit none of them. Time-based retention of a week would eat rows that are still in the window:
the samples topic is not a queue, it IS the state, and a worker that starts reads the window back from it. So the
samples of a stream are kept

- without limit where a window is of a count of rows or over everything: no span of time says how old the oldest row is;
- for the longest window + ``max_skew`` + ``worst_lag_seconds`` where all windows end with time. Retention goes by the
  time of the log, a window by event time, and a row may be ``max_skew`` ahead of the log. A stream whose event time
  stands still (its producers are silent) keeps its rows live while the log's clock runs on: ``worst_lag_seconds`` is
  also the longest such silence that can be survived.

Retirements are always kept without limit. A worker remembers a number of them, not those of a span of time, so that a
retired id stays retired however late its sample comes, and a worker that starts must find them all again.

Retention by size is switched off: a burst would push live rows out. All records bear the time at which the broker
appended them, so that neither retention nor the judgement of bogus dates rests on a client's clock. Bytes stay
compressed as the producer sent them.

On the cluster of a site are samples, retirements, receipts and dead letters; on the central one deltas, checkpoints,
models, queries, predictions, and the dead letters of these. No sample leaves its site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltaplane import limits
from deltaplane.definition import StreamDefinition
from deltaplane_services import kafka_properties as kafka
from deltaplane_services.kafka_properties import MEGABYTE
from deltaplane_services.processors.records import (
    CHECKPOINTS,
    DEAD_LETTERS,
    DELTAS,
    MODELS,
    PREDICTIONS,
    QUERIES,
    RECEIPTS,
    RETIREMENTS,
    SAMPLES,
    TOPICS,
)
from deltaplane_services.settings import Cluster, ServiceSettings

SITE_TOPICS = (SAMPLES, RETIREMENTS, RECEIPTS, DEAD_LETTERS)
CENTRAL_TOPICS = (DELTAS, CHECKPOINTS, MODELS, QUERIES, PREDICTIONS, DEAD_LETTERS)

SMALL_RECORD_BYTES = 1_048_588
"""Bytes of one batch of small records (receipts, dead letters, predictions): Kafka's own default."""

LARGEST_BATCH_BYTES = limits.MESSAGE_BYTES + 2 * MEGABYTE
"""No topic may admit more: it is what every reader is ready to receive."""

SEGMENT_BYTES = 32 * MEGABYTE
"""Bytes of one file of checkpoints or models, more where records are large. Compaction leaves the newest file alone,
and whoever starts reads it whole: with Kafka's default of 1 GiB a merger's restart would be slow."""

UNLIMITED = "-1"
LONGEST = str(2**63 - 1)
"""Milliseconds of retention that come to the same."""

_RECORD_BYTES = {
    SAMPLES: kafka.INPUT_BYTES,
    RETIREMENTS: kafka.INPUT_BYTES,
    QUERIES: kafka.INPUT_BYTES,
    RECEIPTS: SMALL_RECORD_BYTES,
    DEAD_LETTERS: SMALL_RECORD_BYTES,
    PREDICTIONS: SMALL_RECORD_BYTES,
}

assert set(SITE_TOPICS) | set(CENTRAL_TOPICS) == set(TOPICS), "every topic must lie on a cluster"
assert 2 * limits.DEAD_LETTER_BYTES < SMALL_RECORD_BYTES, "a dead letter must fit its topic"


@dataclass(frozen=True)
class Rule:
    """What one setting of a topic is made as, and what else of it will do.

    ``choices``: other texts that are as good. ``least`` and ``most``: bounds of a number, where -1 is without limit.
    """

    value: str
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    def allows(self, found: str | None) -> bool:
        """Whether a topic that has ``found`` will do."""
        if found == self.value or found in self.choices:
            return True
        if found is None or (self.least is None and self.most is None):
            return False
        try:
            number = float("inf") if found == UNLIMITED else int(found)
        except ValueError:
            return False
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    def __str__(self) -> str:
        """What is expected, in words."""
        if self.least is None and self.most is None:
            return " or ".join((self.value, *self.choices))
        words = [f"at least {self.least}"] if self.least is not None else []
        words += [f"at most {self.most}"] if self.most is not None else []
        return " and ".join(words)


@dataclass(frozen=True)
class TopicPlan:
    """A topic as it must be; ``rules`` are settings by name, ``tuning`` others that it is made with and may differ."""

    name: str
    partitions: int
    replication_factor: int
    rules: Mapping[str, Rule]
    tuning: Mapping[str, str]

    @property
    def config(self) -> dict[str, str]:
        """The settings a topic is made with."""
        return {**{name: rule.value for name, rule in self.rules.items()}, **self.tuning}


def topic_name(definition: StreamDefinition, topic: str) -> str:
    """The name of a topic on the brokers."""
    return f"{definition.name}.{topic}"


def plan_topics(settings: ServiceSettings, cluster: Cluster) -> tuple[TopicPlan, ...]:
    """Every topic that a cluster must hold; all of them where the site's cluster is the central one too."""
    topics: tuple[str, ...] = SITE_TOPICS if cluster.name == "site" else CENTRAL_TOPICS
    if len(settings.clusters) == 1:
        topics = tuple(TOPICS)
    return tuple(_plan(settings, topic) for topic in topics)


def _plan(settings: ServiceSettings, topic: str) -> TopicPlan:
    definition, replicas = settings.definition, settings.knobs.replication_factor
    record_bytes = _RECORD_BYTES.get(topic, kafka.statistics_record_bytes(definition))
    rules = {
        "max.message.bytes": Rule(str(record_bytes), least=record_bytes, most=LARGEST_BATCH_BYTES),
        "message.timestamp.type": Rule("LogAppendTime"),
        "compression.type": Rule("producer"),
        "unclean.leader.election.enable": Rule("false"),
    }
    tuning: dict[str, str] = {}
    if replicas > 0:
        tuning["min.insync.replicas"] = str(least_in_sync(replicas))
    if not TOPICS[topic].compacted:
        retention = _retention_milliseconds(settings, topic)
        rules["cleanup.policy"] = Rule("delete")
        rules["retention.ms"] = (
            Rule(UNLIMITED, choices=(LONGEST,)) if retention is None else Rule(str(retention), least=retention)
        )
        rules["retention.bytes"] = Rule(UNLIMITED)
    elif topic in (CHECKPOINTS, MODELS):
        segment_bytes = max(SEGMENT_BYTES, 4 * record_bytes)
        rules["cleanup.policy"] = Rule("compact")
        rules["segment.bytes"] = Rule(str(segment_bytes), least=record_bytes, most=4 * segment_bytes)
        tuning["min.cleanable.dirty.ratio"] = "0.1"
    else:
        # Their keys seldom repeat, so compaction keeps them for ever; an operator may choose to let old ones go.
        rules["cleanup.policy"] = Rule("compact", choices=("compact,delete", "delete,compact"))
    partitions = 1 if TOPICS[topic].single else definition.partitions
    return TopicPlan(topic_name(definition, topic), partitions, replicas, rules, tuning)


def _retention_milliseconds(settings: ServiceSettings, topic: str) -> int | None:
    """How long a record must stay, or None for ever."""
    lag = int(settings.knobs.worst_lag_seconds * 1000)
    if topic == RETIREMENTS:
        return None
    if topic != SAMPLES:
        return lag
    longest = settings.definition.ladder.longest_milliseconds
    retention = None if longest is None else longest + settings.definition.max_skew_milliseconds + lag
    # A window of so many years is one over everything to a log that counts milliseconds in int64.
    return None if retention is None or retention >= 2**62 else retention


def least_in_sync(replicas: int) -> int:
    """How many replicas must have a record before it counts: two of three, so that either of the two may be lost."""
    return 2 if replicas >= 3 else 1
