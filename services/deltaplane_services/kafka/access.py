"""The rights that each role of a stream needs on topics and groups, and no more than these.

Each topic says who may read and write it (processors/topics.py); here that is sorted by role, with the consumer groups.
``deltaplane topics acls`` prints it as commands, every command and service checks it when it starts, the tests run the
whole pipeline under one principal for each role, and the page on security shows it. Kafka grants rights by topic, so
that each topic carries what one role may write:

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
from deltaplane_services.definition_file.knobs import SERVICES
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.topic_plans import topic_name
from deltaplane_services.processors.topics import QUERIES, TOPICS, Access, RoleName

__all__ = [
    "ADMINISTER",
    "INTAKES",
    "MERGERS",
    "READ",
    "ROLES",
    "SCORERS",
    "TRIM",
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

WORKERS, MERGERS, SCORERS, INTAKES = "workers", "mergers", "scorers", "intakes"
"""The names of the consumer groups; each site has groups of workers and of intakes of its own."""

_OF_A_SITE = (WORKERS, INTAKES)

READ: tuple[Operation, ...] = ("Read",)
WRITE: tuple[Operation, ...] = ("Write",)
TRIM: tuple[Operation, ...] = ("Describe", "Delete")
ADMINISTER: tuple[Operation, ...] = ("Create", "Describe", "DescribeConfigs", "AlterConfigs")


@dataclass(frozen=True)
class Right:
    """The operations that a role may do with a topic or group of a cluster; ``name`` is without the stream's prefix.

    ``optional``: the role does its work without the right, but cannot warn of unsafe settings. ``of_users``: the topic
    is none of the stream's, and ``name`` is its whole name.
    """

    cluster: ClusterName
    resource: Resource
    name: str
    operations: tuple[Operation, ...]
    optional: bool = False
    of_users: bool = False


@dataclass(frozen=True)
class Role:
    """The purpose of a role, in words, and the rights that it needs."""

    purpose: str
    rights: tuple[Right, ...]

    def topics(self, cluster: ClusterName) -> dict[str, tuple[Operation, ...]]:
        """Topic to the operations that the role needs on a cluster; optional rights are left out."""
        return {
            right.name: right.operations
            for right in self.rights
            if right.cluster == cluster and right.resource == "topic" and not right.optional
        }


_PURPOSES: Mapping[RoleName, str] = {
    "producer": "publishes samples (deltaplane produce, SampleProducer)",
    "retirer": "has samples unlearned, and reads the receipts (deltaplane retire)",
    "worker": "keeps the windows of a site (deltaplane worker)",
    "merger": "adds up and solves (deltaplane merger)",
    "scorer": "answers queries (deltaplane scorer)",
    "intake": "reads your own topics, which [intake] names, and publishes samples and retirements (deltaplane intake)",
    "judge": "holds predictions against labels that come later (deltaplane judge); reads raw samples, and writes"
    " nothing",
    "client": "asks queries and reads the predictions",
    "viewer": "follows the live model (LiveModel, deltaplane model, source list)",
    "operator": "removes and admits sources (deltaplane source remove, admit)",
    "historian": "makes a history of rows a source that follows its table, and retires rows from it (deltaplane"
    " bootstrap publish, follow, retire)",
    "auditor": "proves model and receipts by the log (deltaplane audit, verify-receipt, backup); reads raw samples",
    "inspector": "reads dead letters (deltaplane dead-letters), which repeat samples, queries and records of your own"
    " topics",
    "trimmer": "lets go of samples and retirements that no window needs (deltaplane topics trim; a merger that has"
    " this right too does it by itself); Kafka's right to delete records is that to delete the topic",
    "administrator": "makes and checks topics (deltaplane topics create, check); reads and writes no record",
}
_GROUPS: Mapping[RoleName, tuple[ClusterName, str]] = {
    "worker": ("site", WORKERS),
    "merger": ("central", MERGERS),
    "scorer": ("central", SCORERS),
    "intake": ("site", INTAKES),
}


def _operations(role: RoleName, access: Access | None) -> tuple[Operation, ...]:
    """What a role does with a topic of a cluster; None: the cluster has no such topic."""
    if access is None:
        return ()
    if role == "administrator":
        return ADMINISTER
    reads, writes, trims = (role in roles for roles in (access.read, access.write, access.trim))
    return (*READ * reads, *WRITE * writes, *TRIM * trims)


def _rights(role: RoleName) -> Iterator[Right]:
    """The rights that a role needs; for a service also the optional one to read the settings of its topics."""
    places: list[tuple[ClusterName, str]] = []
    for cluster in ("site", "central"):
        for name, topic in TOPICS.items():
            if operations := _operations(role, topic.on.get(cluster)):
                yield Right(cluster, "topic", name, operations)
                places.append((cluster, name))
        if role in _GROUPS and _GROUPS[role][0] == cluster:
            yield Right(cluster, "group", _GROUPS[role][1], READ)
    for cluster, name in places if role in SERVICES else ():
        yield Right(cluster, "topic", name, ("DescribeConfigs",), optional=True)


ROLES: Mapping[str, Role] = {role: Role(purpose, tuple(_rights(role))) for role, purpose in _PURPOSES.items()}
"""Every role of a stream. One principal may have several."""


def group_name(settings: ServiceSettings, group: str) -> str:
    """The name of a consumer group on the brokers."""
    site = f".{settings.site}" if group in _OF_A_SITE else ""
    return f"{settings.definition.name}.{group}{site}"


@dataclass(frozen=True)
class Acl:
    """One permission: a principal may do some operations on the topic or group of this very name, from any host."""

    cluster: ClusterName
    broker: str
    role: str
    principal: str
    resource: Resource
    name: str
    operations: tuple[Operation, ...]

    def as_json(self) -> dict[str, Any]:
        """The permission as values that JSON has."""
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
        """The permission as a command line of Kafka's own tool; ``secured``: with a file of client properties."""
        words = ["kafka-acls.sh", "--bootstrap-server", self.broker]
        words += ["--command-config", "client.properties"] if secured else []
        words += ["--add", "--allow-principal", self.principal]
        words += [word for operation in self.operations for word in ("--operation", operation)]
        return shlex.join([*words, f"--{self.resource}", self.name])


def acls(settings: ServiceSettings, principals: Iterable[tuple[str, str]]) -> list[Acl]:
    """The permissions that principals need for their roles; ``principals`` are pairs (role, ``User:name``)."""
    return list(_acls(settings, principals))


def _acls(settings: ServiceSettings, principals: Iterable[tuple[str, str]]) -> Iterator[Acl]:
    found: dict[tuple[str, ...], Acl] = {}
    for role, principal in principals:
        for right in (*ROLES[role].rights, *_rights_of_intake(settings, role)):
            cluster = settings.cluster(right.cluster)
            name = _full_name(settings, right)
            # Dead letters are on both clusters, which may be one; and a role may have several rights to one topic.
            key = (cluster.broker, role, principal, right.resource, name)
            before = found[key].operations if key in found else ()
            operations = tuple(dict.fromkeys((*before, *right.operations)))
            found[key] = Acl(right.cluster, cluster.broker, role, principal, right.resource, name, operations)
    yield from found.values()


def _rights_of_intake(settings: ServiceSettings, role: str) -> tuple[Right, ...]:
    """The rights that depend on what ``[intake]`` says: to the users' topics, and to queries."""
    if role != "intake" or settings.intake is None:
        return ()
    users = tuple(Right("site", "topic", topic, READ, of_users=True) for topic in settings.intake.topics)
    return (*users, *((Right("central", "topic", QUERIES, WRITE),) if settings.intake.queries else ()))


def _full_name(settings: ServiceSettings, right: Right) -> str:
    if right.of_users:
        return right.name
    if right.resource == "group":
        return group_name(settings, right.name)
    return topic_name(settings.definition, right.name)


def principals_named(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs (role, principal) from texts ``ROLE=TYPE:NAME``. Raises :class:`DefinitionError` for other texts."""
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
    """The roles and their rights as a table in Markdown; the groups of a site end in ``SITE``."""
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
            name = f"{name}.SITE" if right.name in _OF_A_SITE else name
            words = ", ".join(right.operations) + (" (may be left out)" if right.optional else "")
            by_operations.setdefault(words, []).append(name)
    return "; ".join(f"{words}: {', '.join(names)}" for words, names in by_operations.items())
