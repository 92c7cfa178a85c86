"""The topics of one cluster: described, and compared with what each must be (:mod:`topic_plans`)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType, TopicDescription

from deltaplane.errors import DeltaplaneError
from deltaplane_services.definition_file import kafka_properties as kafka
from deltaplane_services.definition_file.settings import Cluster
from deltaplane_services.kafka.admin_questions import AdminQuestions, Answers, Ask, admin_client
from deltaplane_services.kafka.certificates import with_cause
from deltaplane_services.kafka.topic_plans import (
    BROKER_SETTINGS,
    KAFKA_DEFAULTS,
    UNLIMITED,
    Rule,
    TopicPlan,
    least_in_sync,
)

__all__ = ["SETTLING_SECONDS", "Administration", "Finding", "NotTold", "error_of", "text_of"]

SETTLING_SECONDS = 10.0
"""How long a broker may not yet know what was just made."""


@dataclass(frozen=True)
class Finding:
    """Something wrong with a topic: the setting, the expected and the actual value, and the command that corrects it.

    ``risk`` is what may happen otherwise. ``vital``: whether rows may be lost or miscounted, or the stream may stand
    still.
    """

    cluster: str
    topic: str
    setting: str
    expected: str
    found: str
    remedy: str
    risk: str = ""
    vital: bool = True

    @property
    def stops(self) -> bool:
        """Whether no work can begin: the topic does not exist, or has another number of partitions."""
        return self.setting in ("creation", "existence", "partitions")

    def __str__(self) -> str:
        """The finding in one line."""
        where = f"{self.topic} on the {self.cluster} cluster: {self.setting}"
        risk = f"; else {self.risk}" if self.risk else ""
        return f"{where}: expected {self.expected}, got {self.found}{risk}; {self.remedy}"


class NotTold(DeltaplaneError):
    """A cluster does not describe its topics or their settings."""


class Administration:
    """One cluster's topics, through an admin client. Raises :class:`DeltaplaneError` if the cluster does not answer."""

    def __init__(self, cluster: Cluster, timeout_seconds: float) -> None:
        self.cluster = cluster
        self.timeout_seconds = timeout_seconds
        self.properties = kafka.admin(cluster.broker, cluster.properties)
        self._questions = AdminQuestions(lambda note: admin_client(self.properties, cluster.name, note))
        self._reach()

    def _ask(self, ask: Ask) -> Answers:
        return self._questions.wait(ask, self.timeout_seconds)

    def _reach(self) -> None:
        answers = self._ask(lambda client, seconds: {"": client.describe_cluster(request_timeout=seconds)})
        try:
            described = answers[""].result(0.0)
            self.brokers = [node.id for node in described.nodes]
        except (KafkaException, TimeoutError) as fault:
            plain = text_of(fault) if isinstance(fault, KafkaException) else str(fault)
            cause = with_cause(self._questions.last_error or plain, self.properties)
            said = kafka.without_secrets(cause, self.properties)
            raise DeltaplaneError(
                f"kafka: the {self.cluster.name} cluster at {self.cluster.broker} does not answer within"
                f" {self.timeout_seconds:g} seconds: {said}; check that it runs, its address (--broker,"
                " --central-broker), and the properties security.protocol, sasl.… and ssl.…"
            ) from None

    def check(
        self, plans: Sequence[TopicPlan], new: Collection[str] = (), left_out: Collection[tuple[str, str]] = ()
    ) -> list[Finding]:
        """All findings on these topics; ``new`` ones are checked again for a while, until they are as they were made.

        ``left_out``: (topic, setting) pairs that new topics were made without. Raises :class:`NotTold`.
        """
        until = time.monotonic() + min(SETTLING_SECONDS, self.timeout_seconds)
        while True:
            there = self.describe(plans)
            findings = [finding for plan in plans for finding in self._check(plan, there.get(plan.name))]
            unsettled = any(f.topic in new and (f.topic, f.setting) not in left_out for f in findings)
            if not unsettled or time.monotonic() >= until:
                return findings
            time.sleep(0.1)

    def _check(self, plan: TopicPlan, topic: TopicDescription | None) -> list[Finding]:
        if topic is None:
            return [
                Finding(
                    self.cluster.name,
                    plan.name,
                    "existence",
                    "a topic",
                    "none",
                    "make it with: deltaplane topics create",
                )
            ]
        return [*self._check_partitions(plan, topic), *self.check_settings(plan, topic)]

    def _check_partitions(self, plan: TopicPlan, topic: TopicDescription) -> Iterator[Finding]:
        partitions, replicas = len(topic.partitions), _replicas(topic)
        if partitions < plan.partitions:
            command = self.command("kafka-topics.sh", f"--alter --topic {plan.name} --partitions {plan.partitions}")
            remedy = (
                f"if nothing was written to it yet: {command}; otherwise keys would move: give the stream another name"
            )
            yield Finding(self.cluster.name, plan.name, "partitions", str(plan.partitions), str(partitions), remedy)
        elif partitions > plan.partitions:
            command = self.command("kafka-topics.sh", f"--delete --topic {plan.name}")
            remedy = (
                f"partitions cannot be taken away: if nothing of it is needed, {command}, then deltaplane topics"
                " create; otherwise give the stream another name"
            )
            yield Finding(self.cluster.name, plan.name, "partitions", str(plan.partitions), str(partitions), remedy)
        if plan.replication_factor > 0 and replicas != plan.replication_factor:
            remedy = "move its partitions with kafka-reassign-partitions.sh, or change replication_factor"
            yield Finding(
                self.cluster.name, plan.name, "replication factor", str(plan.replication_factor), str(replicas), remedy
            )

    def check_settings(self, plan: TopicPlan, topic: TopicDescription) -> Iterator[Finding]:
        """All findings on the settings of an existing topic. Raises :class:`NotTold`."""
        found = self._settings(ResourceType.TOPIC, plan.name)
        replicas = _replicas(topic)
        in_sync = Rule(
            str(least_in_sync(replicas)),
            least=least_in_sync(replicas),
            most=max(1, replicas - 1),
            risk="an acknowledged record is lost with one broker, or none may be away",
            vital=plan.vital,
        )
        for setting, rule in {**plan.rules, "min.insync.replicas": in_sync}.items():
            if not rule.allows(found.get(setting)):
                yield Finding(
                    self.cluster.name,
                    plan.name,
                    setting,
                    str(rule),
                    str(found.get(setting)),
                    f"mend it with: {self.set_command(plan.name, setting, rule.value)}",
                    risk=rule.risk,
                    vital=rule.is_vital(found.get(setting)),
                )

    def defaults(self) -> dict[str, str]:
        """The settings that this cluster gives a new topic by default: as a broker reports them, else Kafka's own."""
        try:
            found = self._settings(ResourceType.BROKER, str(min(self.brokers)))
        except (NotTold, ValueError):
            return dict(KAFKA_DEFAULTS)
        told = {setting: found.get(name) for setting, name in BROKER_SETTINGS.items()}
        if told["retention.ms"] is None:
            told["retention.ms"] = _milliseconds(found)
        return {setting: value for setting, value in told.items() if value is not None}

    def _settings(self, kind: ResourceType, name: str) -> dict[str, str | None]:
        resource = ConfigResource(kind, name)
        until = time.monotonic() + min(SETTLING_SECONDS, self.timeout_seconds)
        while True:
            answers = self._ask(lambda client, seconds: client.describe_configs([resource], request_timeout=seconds))
            future = answers[resource]
            error = error_of(future)
            # A broker may not know a topic yet that another broker has just described.
            unheard = error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not unheard or time.monotonic() >= until:
                return {setting: entry.value for setting, entry in self._result(future).items()}
            time.sleep(0.1)

    def describe(self, plans: Sequence[TopicPlan]) -> dict[str, TopicDescription]:
        """Name to description, for those of the topics that exist. Raises :class:`NotTold`."""
        names = TopicCollection([plan.name for plan in plans])
        described = {}
        answers = self._ask(lambda client, seconds: client.describe_topics(names, request_timeout=seconds))
        for name, future in answers.items():
            error = error_of(future)
            if error is None:
                described[name] = future.result()
            elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._result(future)
        return described

    def _result(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except KafkaException as fault:
            said = kafka.without_secrets(text_of(fault), self.properties)
            raise NotTold(
                f"kafka: the {self.cluster.name} cluster at {self.cluster.broker} does not tell of its topics:"
                f" {said}; DESCRIBE and DESCRIBE_CONFIGS must be allowed on the stream's topics, and to create them"
                " CREATE and ALTER_CONFIGS"
            ) from None

    def set_command(self, topic: str, setting: str, value: str) -> str:
        """The command that changes a setting of a topic."""
        change = f"--alter --entity-type topics --entity-name {topic} --add-config {setting}={value}"
        return self.command("kafka-configs.sh", change)

    def command(self, script: str, arguments: str) -> str:
        """A command line of Kafka's own tools for this cluster."""
        secured = " --command-config client.properties" if "security.protocol" in self.properties else ""
        return f"{script} --bootstrap-server {self.cluster.broker}{secured} {arguments}"


def _milliseconds(broker: Mapping[str, str | None]) -> str | None:
    """The retention in milliseconds, from a broker's settings in minutes or hours; None if it has neither."""
    for name, milliseconds in (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)):
        if (value := broker.get(name)) is not None:
            return UNLIMITED if int(value) < 0 else str(int(value) * milliseconds)
    return None


def _replicas(topic: TopicDescription) -> int:
    """The smallest number of replicas of any partition."""
    return min(len(partition.replicas) for partition in topic.partitions)


def error_of(future: Future[Any]) -> KafkaError | None:
    """The error that a call ended with; None if it succeeded."""
    fault = future.exception()
    if fault is None:
        return None
    if isinstance(fault, KafkaException) and fault.args and isinstance(fault.args[0], KafkaError):
        return fault.args[0]
    raise fault


def text_of(fault: KafkaException) -> str:
    """The message of a fault."""
    error = fault.args[0] if fault.args else fault
    return error.str() if isinstance(error, KafkaError) else str(error)
