"""Checks before a command begins: brokers answer, topics and rights are there, and models are of the same definition.

They are made once, at the start, so that a mistake in the configuration gives one message, and not a service that waits
for ever. The rights that a command needs are in access.py; the brokers report those that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import TopicDescription

from deltaplane.errors import DeltaplaneError
from deltaplane_services.definition_file.kafka_properties import ClusterName, without_secrets
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.access import ROLES, Operation
from deltaplane_services.kafka.admin_questions import AdminQuestions, admin_client
from deltaplane_services.kafka.certificates import with_cause
from deltaplane_services.kafka.client_errors import PASSING
from deltaplane_services.kafka.clients import reader
from deltaplane_services.kafka.following import ModelFollower
from deltaplane_services.kafka.log_errors import LogUnavailable
from deltaplane_services.kafka.membership import NotAllowed, Principal, is_refusal
from deltaplane_services.kafka.topic_plans import topic_name
from deltaplane_services.processors.messages import MODELS, TOPICS

__all__ = ["ANSWER_SECONDS", "ATTEMPTS", "CLUSTERS", "check_stream", "check_topics"]

ANSWER_SECONDS = 4.0
ATTEMPTS = 5
"""How long a broker may take to answer the first question, and how often it is asked. The client may ask a broker that
has just died, and wait for it; a new attempt chooses again. A supervisor that starts brokers and services together
restarts a service that came too early."""

CLUSTERS: tuple[ClusterName, ...] = ("site", "central")


def check_stream(settings: ServiceSettings, role: str) -> None:
    """Raise the first thing that keeps a command of a role from beginning.

    That is :class:`LogUnavailable` if brokers do not answer or topics are missing, :class:`NotAllowed`, with all of
    their names, if rights are missing, :class:`DeltaplaneError` if a topic has another number of partitions, and
    :class:`DefinitionMismatch` if the stream's models are of another definition.
    """
    for cluster in CLUSTERS:
        check_topics(settings, cluster, ROLES[role].topics(cluster), role)
    if "Read" in ROLES[role].topics("central").get(MODELS, ()):
        with closing(reader(settings, "central")) as log:
            ModelFollower(log, settings.definition)


def check_topics(
    settings: ServiceSettings, cluster: ClusterName, wanted: Mapping[str, tuple[Operation, ...]], role: str
) -> None:
    """Raise if a topic of a cluster is missing, or an operation ``wanted`` on it is not allowed; see check_stream."""
    if not wanted:
        return
    missing: list[str] = []
    party = Principal.of(settings.admin_properties(cluster))
    for topic, described in _Described(settings, cluster, wanted).topics.items():
        name = topic_name(settings.definition, topic)
        if described is None:
            missing += [f"{operation} topic {name}" for operation in wanted[topic]]
            continue
        expected = 1 if TOPICS[topic].single else settings.definition.partitions
        if len(described.partitions) != expected:
            raise DeltaplaneError(
                f"kafka: topic {name} has {len(described.partitions)} partitions, expected {expected};"
                " use the definition that the stream was made with, or see: deltaplane topics check"
            )
        # If a broker does not report rights, the first record will show whether they are there.
        allowed = None if not described.authorized_operations else {a.name for a in described.authorized_operations}
        missing += [f"{o} topic {name}" for o in wanted[topic] if allowed is not None and o.upper() not in allowed]
    if missing:
        raise NotAllowed(
            f"kafka: {party.who} may not {', '.join(missing)}; a {role} needs that: deltaplane topics acls --principal"
            f" {role}=User:NAME prints what to allow"
        )


class _Described:
    """Descriptions of topics by a cluster; None for a topic that this client may not see.

    Raises :class:`LogUnavailable` if brokers do not answer, or a topic is missing.
    """

    def __init__(self, settings: ServiceSettings, cluster: ClusterName, topics: Mapping[str, object]) -> None:
        self._properties = settings.admin_properties(cluster)
        self._servers = settings.cluster(cluster).broker
        self._questions = AdminQuestions(lambda note: admin_client(self._properties, cluster, note))
        self.topics: dict[str, TopicDescription | None] = {}
        of_name = {topic_name(settings.definition, topic): topic for topic in topics}
        for attempt in range(1, ATTEMPTS + 1):
            waiting = [name for name, topic in of_name.items() if topic not in self.topics]
            self._ask({name: of_name[name] for name in waiting}, last=attempt == ATTEMPTS)

    def _ask(self, of_name: Mapping[str, str], *, last: bool) -> None:
        """Ask for topics by name. Those without an answer in time are left for the next attempt, if there is one."""
        if not of_name:
            return
        names, questions = TopicCollection(list(of_name)), self._questions
        # Another client may choose another broker.
        questions.close()
        answers = questions.wait(
            lambda client, seconds: client.describe_topics(
                names, include_authorized_operations=True, request_timeout=seconds
            ),
            ANSWER_SECONDS,
        )
        for name, answer in answers.items():
            try:
                self.topics[of_name[name]] = answer.result(0.0)
            except (KafkaException, TimeoutError) as fault:
                if last or questions.turned_away or not _may_pass(fault):
                    self._refuse(fault, name)
                    self.topics[of_name[name]] = None

    def _refuse(self, fault: KafkaException | TimeoutError, name: str) -> None:
        """Raise :class:`LogUnavailable` with the cause of a fault, unless it is a missing right."""
        error = fault.args[0] if fault.args else None
        if is_refusal(error):
            return
        if isinstance(error, KafkaError) and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise LogUnavailable(
                f"kafka: topic {name}: {error.str()}; make the stream's topics with: deltaplane topics create"
            ) from None
        said = error.str() if isinstance(error, KafkaError) else str(fault)
        said = without_secrets(with_cause(self._questions.last_error or said, self._properties), self._properties)
        raise LogUnavailable(
            f"kafka: no broker at {self._servers} tells of topic {name} within {ATTEMPTS * ANSWER_SECONDS:g} s: {said};"
            " check that it runs, its address (--broker, --central-broker), and the properties security.protocol,"
            " sasl.… and ssl.…"
        ) from None


def _may_pass(fault: KafkaException | TimeoutError) -> bool:
    """Whether a fault may come from a broker that is gone, so that another one may answer."""
    error = fault.args[0] if fault.args else None
    return isinstance(error, KafkaError) and error.code() in PASSING
