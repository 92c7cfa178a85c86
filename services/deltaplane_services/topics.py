"""Making the topics of a stream, and saying what is wrong with those there are.

What each topic must be is a value (:mod:`topic_plans`); here it is compared with what a cluster has. Making them again
changes nothing: a topic that is right is left alone, and one that is wrong is a finding with the command that mends it,
since only its owner can know what else depends on it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicDescription,
)

from deltaplane.errors import DeltaplaneError
from deltaplane_services import kafka_properties as kafka
from deltaplane_services.settings import Cluster, ServiceSettings
from deltaplane_services.topic_plans import Rule, TopicPlan, least_in_sync, plan_topics

SETTLING_SECONDS = 10.0
"""How long what was just made may look otherwise to a broker that has not heard of it yet."""


@dataclass(frozen=True)
class Finding:
    """Something wrong with a topic: which setting, what was expected, what is there, and the command that mends it."""

    cluster: str
    topic: str
    setting: str
    expected: str
    found: str
    remedy: str

    def __str__(self) -> str:
        """One finding in one line."""
        where = f"{self.topic} on the {self.cluster} cluster: {self.setting}"
        return f"{where}: expected {self.expected}, got {self.found}; {self.remedy}"


@dataclass(frozen=True)
class TopicReport:
    """What :func:`create_topics` did: the topics it made, and what is wrong with the rest."""

    created: tuple[str, ...]
    findings: tuple[Finding, ...]


def create_topics(settings: ServiceSettings, timeout_seconds: float = 30.0) -> TopicReport:
    """Make the topics that are missing, and report on the others; doing it again changes nothing.

    Raises :class:`DeltaplaneError` where a cluster cannot be reached.
    """
    created: list[str] = []
    findings: list[Finding] = []
    for cluster in settings.clusters:
        administration = _Administration(cluster, timeout_seconds)
        plans = plan_topics(settings, cluster)
        made, refused = administration.create(plans)
        created += made
        findings += refused
        not_there = {finding.topic for finding in refused}
        findings += administration.check([plan for plan in plans if plan.name not in not_there], new=made)
    return TopicReport(tuple(created), tuple(findings))


def check_topics(settings: ServiceSettings, timeout_seconds: float = 30.0) -> list[Finding]:
    """All that is wrong with the topics of a stream; empty where nothing is.

    Raises :class:`DeltaplaneError` where a cluster cannot be reached.
    """
    return [
        finding
        for cluster in settings.clusters
        for finding in _Administration(cluster, timeout_seconds).check(plan_topics(settings, cluster))
    ]


class _Administration:
    """One cluster's topics, through an admin client that is held for as long as its answers are awaited."""

    def __init__(self, cluster: Cluster, timeout_seconds: float) -> None:
        self._cluster = cluster
        self._timeout_seconds = timeout_seconds
        self._properties = kafka.admin(cluster.broker, cluster.properties)
        self._last_error = ""
        try:
            properties: dict[str, Any] = {**self._properties, "error_cb": self._note, "log_level": 0}
            self._client = AdminClient(properties)
        except (KafkaException, TypeError, ValueError) as fault:
            raise kafka.client_refused(fault, self._properties, cluster.name) from None
        self._reach()

    def _note(self, error: KafkaError) -> None:
        # "All brokers are down" says less than the error before it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._last_error:  # noqa: SLF001
            self._last_error = error.str()

    def _reach(self) -> None:
        try:
            self._client.describe_cluster(request_timeout=self._timeout_seconds).result()
        except KafkaException as fault:
            self._client.poll(0)
            said = kafka.without_secrets(self._last_error or _text(fault), self._properties)
            raise DeltaplaneError(
                f"kafka: the {self._cluster.name} cluster at {self._cluster.broker} does not answer within"
                f" {self._timeout_seconds:g} seconds: {said}; check that it runs, its address (--broker,"
                " --central-broker), and the properties security.protocol, sasl.… and ssl.…"
            ) from None

    def create(self, plans: Sequence[TopicPlan]) -> tuple[list[str], list[Finding]]:
        """Make what is missing: the names of what was made, and what the brokers refused to make."""
        there = self._describe(plans)
        missing = [plan for plan in plans if plan.name not in there]
        futures = (
            self._client.create_topics(
                [NewTopic(plan.name, plan.partitions, plan.replication_factor, config=plan.config) for plan in missing],
                request_timeout=self._timeout_seconds,
                operation_timeout=self._timeout_seconds,
            )
            if missing
            else {}
        )
        created, findings = [], []
        for name, future in futures.items():
            error = _error_of(future)
            if error is None:
                created.append(name)
            elif error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                findings.append(
                    self._finding(name, "creation", "the topic", f"a refusal ({error.str()})", "mend that and repeat")
                )
        self._require_two_in_sync([plan for plan in missing if plan.name in created])
        return created, findings

    def _require_two_in_sync(self, plans: Sequence[TopicPlan]) -> None:
        """Where the brokers chose the number of replicas, the number that must be in sync can be known only now."""
        wanted = []
        for plan, topic in self._await(plans):
            in_sync = least_in_sync(_replicas(topic))
            if plan.replication_factor < 1 and in_sync > 1:
                entry = ConfigEntry("min.insync.replicas", str(in_sync), incremental_operation=AlterConfigOpType.SET)
                wanted.append(ConfigResource(ResourceType.TOPIC, plan.name, incremental_configs=[entry]))
        if wanted:
            for future in self._client.incremental_alter_configs(
                wanted, request_timeout=self._timeout_seconds
            ).values():
                # What cannot be set is found by the check that follows.
                _error_of(future)

    def _await(self, plans: Sequence[TopicPlan]) -> Iterator[tuple[TopicPlan, TopicDescription]]:
        """The new topics, as soon as they can be seen: they are made before they are known to every broker."""
        until = time.monotonic() + self._timeout_seconds
        while (there := self._describe(plans)).keys() < {plan.name for plan in plans}:
            if time.monotonic() >= until:
                raise DeltaplaneError(
                    f"kafka: the {self._cluster.name} cluster made topics that it does not show after"
                    f" {self._timeout_seconds:g} seconds; look at the brokers' logs, then run deltaplane topics check"
                )
            time.sleep(0.1)
        return ((plan, there[plan.name]) for plan in plans)

    def check(self, plans: Sequence[TopicPlan], new: Collection[str] = ()) -> list[Finding]:
        """All that is wrong with these topics; ``new`` ones are looked at again for a while, until they are as made."""
        until = time.monotonic() + min(SETTLING_SECONDS, self._timeout_seconds)
        while True:
            there = self._describe(plans)
            findings = [finding for plan in plans for finding in self._check(plan, there.get(plan.name))]
            if not any(finding.topic in new for finding in findings) or time.monotonic() >= until:
                return findings
            time.sleep(0.1)

    def _check(self, plan: TopicPlan, topic: TopicDescription | None) -> list[Finding]:
        if topic is None:
            return [self._finding(plan.name, "existence", "a topic", "none", "make it with: deltaplane topics create")]
        return [*self._check_partitions(plan, topic), *self._check_config(plan, topic)]

    def _check_partitions(self, plan: TopicPlan, topic: TopicDescription) -> Iterator[Finding]:
        partitions, replicas = len(topic.partitions), _replicas(topic)
        if partitions < plan.partitions:
            command = self._command("kafka-topics.sh", f"--alter --topic {plan.name} --partitions {plan.partitions}")
            remedy = (
                f"if nothing was written to it yet: {command}; otherwise keys would move: give the stream another name"
            )
            yield self._finding(plan.name, "partitions", str(plan.partitions), str(partitions), remedy)
        elif partitions > plan.partitions:
            command = self._command("kafka-topics.sh", f"--delete --topic {plan.name}")
            remedy = (
                f"partitions cannot be taken away: if nothing of it is needed, {command}, then deltaplane topics"
                " create; otherwise give the stream another name"
            )
            yield self._finding(plan.name, "partitions", str(plan.partitions), str(partitions), remedy)
        if plan.replication_factor > 0 and replicas != plan.replication_factor:
            remedy = "move its partitions with kafka-reassign-partitions.sh, or change replication_factor"
            yield self._finding(plan.name, "replication factor", str(plan.replication_factor), str(replicas), remedy)

    def _check_config(self, plan: TopicPlan, topic: TopicDescription) -> Iterator[Finding]:
        resource = ConfigResource(ResourceType.TOPIC, plan.name)
        future = self._client.describe_configs([resource], request_timeout=self._timeout_seconds)[resource]
        found = {name: entry.value for name, entry in self._result(future).items()}
        replicas = _replicas(topic)
        in_sync = Rule(str(least_in_sync(replicas)), least=least_in_sync(replicas), most=max(1, replicas - 1))
        for setting, rule in {**plan.rules, "min.insync.replicas": in_sync}.items():
            if not rule.allows(found.get(setting)):
                change = f"--alter --entity-type topics --entity-name {plan.name} --add-config {setting}={rule.value}"
                yield self._finding(
                    plan.name,
                    setting,
                    str(rule),
                    str(found.get(setting)),
                    f"mend it with: {self._command('kafka-configs.sh', change)}",
                )

    def _describe(self, plans: Sequence[TopicPlan]) -> dict[str, TopicDescription]:
        """Those of the topics that exist."""
        names = TopicCollection([plan.name for plan in plans])
        described = {}
        for name, future in self._client.describe_topics(names, request_timeout=self._timeout_seconds).items():
            error = _error_of(future)
            if error is None:
                described[name] = future.result()
            elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._result(future)
        return described

    def _result(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except KafkaException as fault:
            said = kafka.without_secrets(_text(fault), self._properties)
            raise DeltaplaneError(
                f"kafka: the {self._cluster.name} cluster at {self._cluster.broker} does not tell of its topics:"
                f" {said}; DESCRIBE and DESCRIBE_CONFIGS must be allowed on the stream's topics, and to create them"
                " CREATE and ALTER_CONFIGS"
            ) from None

    def _command(self, script: str, arguments: str) -> str:
        secured = " --command-config client.properties" if "security.protocol" in self._properties else ""
        return f"{script} --bootstrap-server {self._cluster.broker}{secured} {arguments}"

    def _finding(self, topic: str, setting: str, expected: str, found: str, remedy: str) -> Finding:
        return Finding(self._cluster.name, topic, setting, expected, found, remedy)


def _replicas(topic: TopicDescription) -> int:
    """Replicas of the partition that has fewest."""
    return min(len(partition.replicas) for partition in topic.partitions)


def _error_of(future: Future[Any]) -> KafkaError | None:
    """The error that a call ended in, or None where it succeeded."""
    fault = future.exception()
    if fault is None:
        return None
    if isinstance(fault, KafkaException) and fault.args and isinstance(fault.args[0], KafkaError):
        return fault.args[0]
    raise fault


def _text(fault: KafkaException) -> str:
    error = fault.args[0] if fault.args else fault
    return error.str() if isinstance(error, KafkaError) else str(error)
