"""Every topic of a stream, declared once: what it carries, where it lies, who reads and writes it, how long it is kept.

All else is derived from these entries: the settings that a topic is made and checked with (kafka/topic_plans.py), the
rights of roles (kafka/access.py), which records carry an announcement of their writer's definition
(kafka/announcing.py), the topics of the embedded broker, and the reference page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from deltaplane_services.definition_file.kafka_properties import ClusterName

RoleName = Literal[
    "producer",
    "retirer",
    "worker",
    "merger",
    "scorer",
    "intake",
    "judge",
    "client",
    "viewer",
    "operator",
    "historian",
    "auditor",
    "inspector",
    "trimmer",
    "administrator",
]
_OUTSIDE: frozenset[RoleName] = frozenset(("producer", "retirer", "client"))


@dataclass(frozen=True)
class Access:
    """The roles that may read, write and trim a topic of one cluster; what each role is for is in kafka/access.py."""

    read: tuple[RoleName, ...]
    write: tuple[RoleName, ...]
    trim: tuple[RoleName, ...] = ()


@dataclass(frozen=True)
class Topic:
    """One topic of every stream; its settings are derived from this and from the stream's definition.

    - ``carries``: its contents, in words.
    - ``on``: each cluster that has it, and who may use it there; dead letters are on both.
    - ``kept``: ``window``, as long as a row of it may be in a window; ``for ever``; ``lag``, as long as a reader may be
      away; ``newest``, the last record of each key; ``once``, everything but repeats of a key.
    - ``records``: how large they may be: ``input`` (batches of rows), ``statistics`` (which follows from the
      definition) or ``small``.
    - ``single``: whether it has one partition, and not as many as the stream.
    - ``state``: whether the stream cannot go on if it is lost; the other topics carry queries, answers, dead letters.
    - ``announced``: which of its records carry an announcement of their writer's definition.
    - ``risk``: what happens if records are deleted too early, in words.
    """

    carries: str
    on: Mapping[ClusterName, Access]
    kept: Literal["window", "for ever", "lag", "newest", "once"]
    records: Literal["input", "statistics", "small"] = "small"
    single: bool = False
    state: bool = False
    announced: Literal["never", "sometimes", "always"] = "never"
    risk: str = "records are gone before they are read"

    @property
    def compacted(self) -> bool:
        """Whether a record may be deleted once there is a newer one with its key."""
        return self.kept in ("newest", "once")

    @property
    def from_outside(self) -> bool:
        """Whether producers, retirers or clients write it."""
        return any(_OUTSIDE.intersection(access.write) for access in self.on.values())


_DECLARED: dict[str, Topic] = {}


def _declared(name: str, topic: Topic) -> str:
    _DECLARED[name] = topic
    return name


SAMPLES = _declared(
    "samples",
    Topic(
        "labelled rows, one by one or in batches",
        {
            "site": Access(
                read=("worker", "intake", "judge", "auditor"), write=("producer", "intake"), trim=("trimmer",)
            )
        },
        kept="window",
        records="input",
        state=True,
        announced="sometimes",
        risk="rows inside the window are deleted, and no worker can begin again",
    ),
)
RETIREMENTS = _declared(
    "retirements",
    Topic(
        "ids of rows that are to be unlearned",
        {"site": Access(read=("worker", "auditor"), write=("retirer", "intake"), trim=("trimmer",))},
        kept="for ever",
        state=True,
        announced="sometimes",
        risk="retired rows come back, or no worker can begin again",
    ),
)
DELTAS = _declared(
    "deltas",
    Topic(
        "changes of the statistics of each source, claims, and orders to remove or admit a source",
        {
            "central": Access(
                # A retirer reads them because a receipt counts if its tile was accepted, which nothing else shows.
                read=("retirer", "worker", "merger", "historian", "auditor", "trimmer"),
                write=("worker", "operator", "historian"),
            )
        },
        kept="lag",
        records="statistics",
        state=True,
        risk="deltas that no checkpoint holds yet are deleted, and no merger can begin again",
    ),
)
CHECKPOINTS = _declared(
    "checkpoints",
    Topic(
        "the newest sums of each source",
        {"central": Access(read=("worker", "merger", "historian", "auditor", "trimmer"), write=("merger",))},
        kept="newest",
        records="statistics",
        single=True,
        state=True,
        announced="always",
    ),
)
MODELS = _declared(
    "models",
    Topic(
        "the newest model",
        {
            "central": Access(
                read=("retirer", "worker", "merger", "scorer", "viewer", "operator", "historian", "auditor"),
                write=("merger",),
            )
        },
        kept="newest",
        records="statistics",
        single=True,
        state=True,
        announced="always",
    ),
)
QUERIES = _declared(
    "queries", Topic("rows to be classified", {"central": Access(read=("scorer",), write=("client",))}, kept="lag")
)
PREDICTIONS = _declared(
    "predictions",
    Topic("answers to queries", {"central": Access(read=("client", "judge"), write=("scorer",))}, kept="lag"),
)
RECEIPTS = _declared(
    "receipts",
    Topic(
        "answers to retirements",
        {"site": Access(read=("retirer", "historian", "auditor"), write=("worker", "historian"))},
        kept="once",
    ),
)
DEAD_LETTERS = _declared(
    "dead-letters",
    Topic(
        "records that could not be used, and why",
        {
            "site": Access(read=("inspector",), write=("worker", "intake")),
            "central": Access(read=("inspector",), write=("merger", "scorer")),
        },
        kept="once",
    ),
)

TOPICS: Mapping[str, Topic] = _DECLARED
"""Every topic, by its name without the stream's prefix."""

SITE_TOPICS = tuple(name for name, topic in TOPICS.items() if "site" in topic.on)
CENTRAL_TOPICS = tuple(name for name, topic in TOPICS.items() if "central" in topic.on)


def read_by(role: str) -> tuple[str, ...]:
    """The topics that a role may read, on any cluster."""
    return tuple(name for name, topic in TOPICS.items() if any(role in access.read for access in topic.on.values()))
