"""Who may do what with which topic and group: the least that each role of a stream needs, as values.

The table below is the only place where this is written down. ``deltaplane topics acls`` prints it as commands, every
command and service checks it when it starts, the tests run the whole pipeline under one principal a role, and the page
on security shows what it says. Kafka's rights end at the topic, so one topic carries what one role may write:

- whoever may write **retirements** unlearns other people's samples, so this is a role of its own and not the
  producer's;
- whoever may write **deltas** speaks for every source: the rule of acceptance keeps workers from harming each other by
  accident, not on purpose. Removing a source is a record of that topic, too;
- whoever may write **models** or **checkpoints** decides what everybody predicts with.

A right to write a topic includes the right to describe it; so does a right to read it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deltaplane.errors import DefinitionError
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file.kafka_properties import ClusterName
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.topic_plans import topic_name
from deltaplane_services.processors.topics import (
    CENTRAL_TOPICS,
    CHECKPOINTS,
    DEAD_LETTERS,
    DELTAS,
    MODELS,
    PREDICTIONS,
    QUERIES,
    RECEIPTS,
    RETIREMENTS,
    SAMPLES,
    SITE_TOPICS,
)

__all__ = [
    "ADMINISTER",
    "MERGERS",
    "READ",
    "READ_AND_WRITE",
    "ROLES",
    "SCORERS",
    "WORKERS",
    "WRITE",
    "Acl",
    "Operation",
    "Resource",
    "Right",
    "Role",
    "acls",
    "group_name",
    "principals_named",
    "rights_table",
]

Operation = Literal["Read", "Write", "Create", "Delete", "Describe", "DescribeConfigs", "AlterConfigs"]
Resource = Literal["topic", "group"]

WORKERS, MERGERS, SCORERS = "workers", "mergers", "scorers"
"""Consumer groups; those of the workers have the site in their name."""

READ: tuple[Operation, ...] = ("Read",)
WRITE: tuple[Operation, ...] = ("Write",)
READ_AND_WRITE: tuple[Operation, ...] = ("Read", "Write")
ADMINISTER: tuple[Operation, ...] = ("Create", "Describe", "DescribeConfigs", "AlterConfigs")


@dataclass(frozen=True)
class Right:
    """What a role may do with a topic or a group of one of the clusters; ``name`` is without the stream's prefix.

    ``optional``: without it the role still does its work, only less is said.
    """

    cluster: ClusterName
    resource: Resource
    name: str
    operations: tuple[Operation, ...]
    optional: bool = False


@dataclass(frozen=True)
class Role:
    """What somebody is there for, and the least that it takes."""

    purpose: str
    rights: tuple[Right, ...]

    def topics(self, cluster: ClusterName) -> dict[str, tuple[Operation, ...]]:
        """What the role needs on a cluster: topic to operations."""
        return {
            right.name: right.operations
            for right in self.rights
            if right.cluster == cluster and right.resource == "topic" and not right.optional
        }


def _topics(cluster: ClusterName, operations: tuple[Operation, ...], *names: str) -> tuple[Right, ...]:
    return tuple(Right(cluster, "topic", name, operations) for name in names)


def _service(*rights: Right) -> tuple[Right, ...]:
    """These rights, and that to see the settings of their topics: unsafe ones are said then, and not only suffered."""
    places = dict.fromkeys((right.cluster, right.name) for right in rights if right.resource == "topic")
    in_order = sorted(places, key=lambda place: place[0] != "site")
    return (
        *rights,
        *(Right(cluster, "topic", name, ("DescribeConfigs",), optional=True) for cluster, name in in_order),
    )


def _group(cluster: ClusterName, name: str) -> tuple[Right, ...]:
    return (Right(cluster, "group", name, READ),)


ROLES: Mapping[str, Role] = {
    "producer": Role("publishes samples (deltaplane produce, SampleProducer)", _topics("site", WRITE, SAMPLES)),
    "retirer": Role(
        "has samples unlearned, and reads the receipts (deltaplane retire)",
        (
            *_topics("site", WRITE, RETIREMENTS),
            *_topics("site", READ, RECEIPTS),
            # A receipt counts if its tile was accepted, which only the deltas tell.
            *_topics("central", READ, DELTAS, MODELS),
        ),
    ),
    "worker": Role(
        "keeps the windows of a site (deltaplane worker)",
        _service(
            *_topics("site", READ, SAMPLES, RETIREMENTS),
            *_topics("site", WRITE, RECEIPTS, DEAD_LETTERS),
            *_group("site", WORKERS),
            *_topics("central", READ_AND_WRITE, DELTAS),
            *_topics("central", READ, CHECKPOINTS, MODELS),
        ),
    ),
    "merger": Role(
        "adds up and solves (deltaplane merger)",
        _service(
            *_topics("central", READ, DELTAS),
            *_topics("central", READ_AND_WRITE, CHECKPOINTS, MODELS),
            *_topics("central", WRITE, DEAD_LETTERS),
            *_group("central", MERGERS),
        ),
    ),
    "scorer": Role(
        "answers queries (deltaplane scorer)",
        _service(
            *_topics("central", READ, MODELS, QUERIES),
            *_topics("central", WRITE, PREDICTIONS, DEAD_LETTERS),
            *_group("central", SCORERS),
        ),
    ),
    "client": Role(
        "asks queries and reads the predictions",
        (*_topics("central", WRITE, QUERIES), *_topics("central", READ, PREDICTIONS)),
    ),
    "viewer": Role(
        "follows the live model (LiveModel, deltaplane model, source list)", _topics("central", READ, MODELS)
    ),
    "operator": Role(
        "removes and admits sources (deltaplane source remove, admit)",
        (*_topics("central", WRITE, DELTAS), *_topics("central", READ, MODELS)),
    ),
    "auditor": Role(
        "proves model and receipts by the log (deltaplane audit, verify-receipt, backup); reads raw samples",
        (
            *_topics("site", READ, SAMPLES, RETIREMENTS, RECEIPTS),
            *_topics("central", READ, DELTAS, CHECKPOINTS, MODELS),
        ),
    ),
    "inspector": Role(
        "reads dead letters, which repeat the beginnings of samples and queries",
        (*_topics("site", READ, DEAD_LETTERS), *_topics("central", READ, DEAD_LETTERS)),
    ),
    "trimmer": Role(
        "lets go of samples and retirements that no window needs (deltaplane topics trim; a merger that has this right"
        " too does it by itself); Kafka's right to delete records is that to delete the topic",
        (
            *_topics("site", ("Describe", "Delete"), SAMPLES, RETIREMENTS),
            *_topics("central", READ, DELTAS, CHECKPOINTS),
        ),
    ),
    "administrator": Role(
        "makes and checks topics (deltaplane topics create, check); reads and writes no record",
        (*_topics("site", ADMINISTER, *SITE_TOPICS), *_topics("central", ADMINISTER, *CENTRAL_TOPICS)),
    ),
}
"""Every role of a stream. One principal may have several."""


def group_name(settings: ServiceSettings, group: str) -> str:
    """The name of a consumer group on the brokers."""
    site = f".{settings.site}" if group == WORKERS else ""
    return f"{settings.definition.name}.{group}{site}"


@dataclass(frozen=True)
class Acl:
    """A principal is allowed some operations on a topic or group of that very name, from any host."""

    cluster: ClusterName
    broker: str
    role: str
    principal: str
    resource: Resource
    name: str
    operations: tuple[Operation, ...]

    def as_json(self) -> dict[str, Any]:
        """In plain values."""
        return {
            "cluster": self.cluster,
            "broker": self.broker,
            "role": self.role,
            "principal": self.principal,
            "resource": self.resource,
            "name": self.name,
            "pattern": "literal",
            "operations": list(self.operations),
            "permission": "allow",
            "host": "*",
        }

    def command(self, *, secured: bool) -> str:
        """The same as a command line of Kafka's own tool."""
        words = ["kafka-acls.sh", "--bootstrap-server", self.broker]
        words += ["--command-config", "client.properties"] if secured else []
        words += ["--add", "--allow-principal", self.principal]
        words += [word for operation in self.operations for word in ("--operation", operation)]
        return shlex.join([*words, f"--{self.resource}", self.name])


def acls(settings: ServiceSettings, principals: Iterable[tuple[str, str]]) -> list[Acl]:
    """What has to be allowed so that each principal can do what its role is there for.

    ``principals`` are pairs of role and principal (``User:name``).
    """
    return list(_acls(settings, principals))


def _acls(settings: ServiceSettings, principals: Iterable[tuple[str, str]]) -> Iterator[Acl]:
    found: dict[tuple[str, ...], Acl] = {}
    for role, principal in principals:
        for right in ROLES[role].rights:
            cluster = settings.cluster(right.cluster)
            name = _full_name(settings, right)
            # Dead letters lie on both clusters, which may be one; and of one topic a role may have several rights.
            key = (cluster.broker, role, principal, right.resource, name)
            before = found[key].operations if key in found else ()
            operations = tuple(dict.fromkeys((*before, *right.operations)))
            found[key] = Acl(right.cluster, cluster.broker, role, principal, right.resource, name, operations)
    yield from found.values()


def _full_name(settings: ServiceSettings, right: Right) -> str:
    if right.resource == "group":
        return group_name(settings, right.name)
    return topic_name(settings.definition, right.name)


def principals_named(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of role and principal from texts ``ROLE=TYPE:NAME``. Raises :class:`DefinitionError`."""
    found = []
    for text in texts:
        role, equals, principal = text.partition("=")
        kind, colon, name = principal.partition(":")
        if role not in ROLES or not equals or not colon or not kind or not name or name == "*":
            raise DefinitionError(
                f"--principal: expected ROLE=User:NAME with a role of {', '.join(ROLES)}, and one name, not '*',"
                f" got {text[:100]!r}"
            )
        found.append((role, principal))
    return found


def rights_table(definition: StreamDefinition) -> str:
    """Who may do what, as a table in Markdown; groups of workers are shown with the site's name left open."""
    lines = ["| Role | Is there to | Cluster of the site | Central cluster |", "|---|---|---|---|"]
    for name, role in ROLES.items():
        cells = [_cell(definition, role, cluster) for cluster in ("site", "central")]
        lines.append(f"| {name} | {role.purpose} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"


def _cell(definition: StreamDefinition, role: Role, cluster: ClusterName) -> str:
    by_operations: dict[str, list[str]] = {}
    for right in role.rights:
        if right.cluster == cluster:
            name = f"group {definition.name}.{right.name}" if right.resource == "group" else right.name
            name = f"{name}.SITE" if right.name == WORKERS else name
            words = ", ".join(right.operations) + (" (may be left out)" if right.optional else "")
            by_operations.setdefault(words, []).append(name)
    return "; ".join(f"{words}: {', '.join(names)}" for words, names in by_operations.items())
