"""Every topic of a stream, declared once: what it carries, where it lies, who writes it and how long it is kept.

All else is derived from these entries: the settings that a topic is made and checked with (kafka/topic_plans.py), the
rights to see them (kafka/access.py), which records carry an announcement of their writer's definition
(kafka/announcing.py), the topics of the embedded broker, and the reference page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from deltaplane_services.definition_file.kafka_properties import ClusterName

__all__ = [
    "CENTRAL_TOPICS",
    "CHECKPOINTS",
    "DEAD_LETTERS",
    "DELTAS",
    "MODELS",
    "PREDICTIONS",
    "QUERIES",
    "RECEIPTS",
    "RETIREMENTS",
    "SAMPLES",
    "SITE_TOPICS",
    "TOPICS",
    "Topic",
]

SAMPLES = "samples"
RETIREMENTS = "retirements"
DELTAS = "deltas"
CHECKPOINTS = "checkpoints"
MODELS = "models"
QUERIES = "queries"
PREDICTIONS = "predictions"
RECEIPTS = "receipts"
DEAD_LETTERS = "dead-letters"


@dataclass(frozen=True)
class Topic:
    """One topic of every stream; its settings are derived from this and from the stream's definition.

    - ``carries``: its contents, in words.
    - ``clusters``: the clusters that have it; dead letters are on both.
    - ``kept``: ``window``, as long as a row of it may be in a window; ``for ever``; ``lag``, as long as a reader may be
      away; ``newest``, the last record of each key; ``once``, everything but repeats of a key.
    - ``records``: how large they may be: ``input`` (batches of rows), ``statistics`` (which follows from the
      definition) or ``small``.
    - ``single``: whether it has one partition, and not as many as the stream.
    - ``state``: whether the stream cannot go on if it is lost; the other topics carry queries, answers, dead letters.
    - ``from_outside``: whether producers, retirers and clients write it, and not the services.
    - ``announced``: which of its records carry an announcement of their writer's definition.
    - ``risk``: what happens if records are deleted too early, in words.
    """

    carries: str
    clusters: tuple[ClusterName, ...]
    kept: Literal["window", "for ever", "lag", "newest", "once"]
    records: Literal["input", "statistics", "small"] = "small"
    single: bool = False
    state: bool = False
    from_outside: bool = False
    announced: Literal["never", "sometimes", "always"] = "never"
    risk: str = "records are gone before they are read"

    @property
    def compacted(self) -> bool:
        """Whether a record may be deleted once there is a newer one with its key."""
        return self.kept in ("newest", "once")


TOPICS: Mapping[str, Topic] = {
    SAMPLES: Topic(
        "labelled rows, one by one or in batches",
        ("site",),
        kept="window",
        records="input",
        state=True,
        from_outside=True,
        announced="sometimes",
        risk="rows inside the window are deleted, and no worker can begin again",
    ),
    RETIREMENTS: Topic(
        "ids of rows that are to be unlearned",
        ("site",),
        kept="for ever",
        state=True,
        from_outside=True,
        announced="sometimes",
        risk="retired rows come back, or no worker can begin again",
    ),
    DELTAS: Topic(
        "changes of the statistics of each source, claims, and orders to remove or admit a source",
        ("central",),
        kept="lag",
        records="statistics",
        state=True,
        risk="deltas that no checkpoint holds yet are deleted, and no merger can begin again",
    ),
    CHECKPOINTS: Topic(
        "the newest sums of each source",
        ("central",),
        kept="newest",
        records="statistics",
        single=True,
        state=True,
        announced="always",
    ),
    MODELS: Topic(
        "the newest model",
        ("central",),
        kept="newest",
        records="statistics",
        single=True,
        state=True,
        announced="always",
    ),
    QUERIES: Topic("rows to be classified", ("central",), kept="lag", from_outside=True),
    PREDICTIONS: Topic("answers to queries", ("central",), kept="lag"),
    RECEIPTS: Topic("answers to retirements", ("site",), kept="once"),
    DEAD_LETTERS: Topic("records that could not be used, and why", ("site", "central"), kept="once"),
}
"""Every topic, by its name without the stream's prefix."""

SITE_TOPICS = tuple(name for name, topic in TOPICS.items() if "site" in topic.clusters)
CENTRAL_TOPICS = tuple(name for name, topic in TOPICS.items() if "central" in topic.clusters)
