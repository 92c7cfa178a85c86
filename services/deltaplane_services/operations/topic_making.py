"""Making topics on a cluster whose policy restricts what may be made.

A managed cluster has a policy: some settings may not be set, some values not be exceeded. A topic that asks for one of
them is refused as a whole, even if it asks for what it would get anyway. So only settings that differ from the
cluster's defaults are sent. If one is still refused, it is left out, one setting at a time, and reported afterwards
with the broker's own words. A policy may also demand a setting that equals the default; then it is sent.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicDescription,
)

from deltaplane.errors import DeltaplaneError
from deltaplane_services.kafka.admin_questions import admin_client
from deltaplane_services.kafka.client_errors import PASSING
from deltaplane_services.kafka.membership import Principal, is_refusal
from deltaplane_services.kafka.topic_plans import TopicPlan
from deltaplane_services.operations.topic_administration import Administration, Finding, error_of

__all__ = ["ORDINARY_REPLICAS", "THROTTLED_PAUSE_SECONDS", "Made", "TopicMaking"]

THROTTLED_PAUSE_SECONDS = 1.0
ORDINARY_REPLICAS = 3
"""The number of replicas to try if a policy refuses the number that the brokers choose."""

_OF_NO_SETTING = {
    "INVALID_REPLICATION_FACTOR",
    "INVALID_PARTITIONS",
    "INVALID_TOPIC_EXCEPTION",
    "TOPIC_EXCEPTION",
    "NOT_CONTROLLER",
}


@dataclass(frozen=True)
class Made:
    """A topic that was made: the settings that were sent, and those left out, each with the broker's message."""

    plan: TopicPlan
    sent: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


class TopicMaking:
    """Makes topics on one cluster. ``made`` lists those that were made; ``refused`` has a finding for each other."""

    def __init__(self, administration: Administration) -> None:
        self._administration = administration
        self._client = admin_client(administration.properties, administration.cluster.name)
        self._cluster = administration.cluster.name
        self._until = time.monotonic() + administration.timeout_seconds
        self.made: list[Made] = []
        self.refused: list[Finding] = []

    @property
    def left_out(self) -> set[tuple[str, str]]:
        """(topic, setting) pairs that topics were made without."""
        return {(made.plan.name, setting) for made in self.made for setting in made.left_out}

    def create(self, plans: Sequence[TopicPlan]) -> None:
        """Make these topics; one that somebody else has made meanwhile stays as it is."""
        if not plans:
            return
        defaults = self._administration.defaults()
        wanted = [(plan, plan.config_beside(defaults)) for plan in plans]
        # One request for all topics is quickest; refused ones are then tried one by one.
        for (plan, sent), error in zip(wanted, self._errors(wanted), strict=True):
            self._settle(plan, sent, error)
        self._set_what_differs()

    def _errors(self, wanted: Sequence[tuple[TopicPlan, Mapping[str, str]]]) -> list[KafkaError | None]:
        """Ask for topics with settings; the error of each, or None."""
        topics = [
            NewTopic(plan.name, plan.partitions, plan.replication_factor, config=dict(config))
            for plan, config in wanted
        ]
        timeout = self._administration.timeout_seconds
        futures = self._client.create_topics(topics, request_timeout=timeout, operation_timeout=timeout)
        return [error_of(futures[plan.name]) for plan, _ in wanted]

    def _try(self, plan: TopicPlan, config: Mapping[str, str], *, only_asked: bool = False) -> KafkaError | None:
        """Ask for one topic, or only validate the request; the error, or None. Waits while the cluster throttles."""
        timeout = self._administration.timeout_seconds
        while True:
            topic = NewTopic(plan.name, plan.partitions, plan.replication_factor, config=dict(config))
            futures = self._client.create_topics(
                [topic], request_timeout=timeout, operation_timeout=timeout, validate_only=only_asked
            )
            error = error_of(futures[plan.name])
            if error is None or error.name() != "THROTTLING_QUOTA_EXCEEDED" or time.monotonic() >= self._until:
                return error
            time.sleep(THROTTLED_PAUSE_SECONDS)

    def _settle(self, plan: TopicPlan, sent: Mapping[str, str], error: KafkaError | None) -> None:
        """Record a topic that was made; if its settings were refused, try again with others."""
        config, left_out, demanded = dict(sent), dict[str, str](), dict[str, str]()
        if error is not None and error.name() == "THROTTLING_QUOTA_EXCEEDED":
            error = self._try(plan, config)
        while error is not None:
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            other = None if _is_of_no_setting(error) else self._other_config(plan, config, left_out, demanded, error)
            if other is None:
                fewer = self._with_ordinary_replicas(plan, error)
                if fewer is None:
                    self.refused.append(self._refusal(plan, error))
                    return
                plan = fewer
            else:
                config = other
            error = self._try(plan, config)
        self.made.append(Made(plan, config, left_out))

    def _other_config(
        self,
        plan: TopicPlan,
        config: Mapping[str, str],
        left_out: dict[str, str],
        demanded: dict[str, str],
        error: KafkaError,
    ) -> dict[str, str] | None:
        """The settings to try next; None if no others can help. ``left_out`` and ``demanded`` are updated.

        A broker's message may name allowed settings as well as forbidden ones. So each setting is validated by itself,
        the most important first. The message only decides which settings to add that were not sent because they equal
        the default.
        """
        unsaid = {name: value for name, value in plan.config.items() if name not in config and name not in left_out}
        if more := {name: value for name, value in unsaid.items() if _names(error.str(), name)}:
            demanded |= more
            return {**config, **more}
        kept: dict[str, str] = {}
        if self._try(plan, kept, only_asked=True) is not None:
            kept = dict(demanded)
            if not kept or self._try(plan, kept, only_asked=True) is not None:
                return None
        found: dict[str, str] = {}
        for name in sorted(config, key=lambda name: name not in plan.rules or not plan.rules[name].vital):
            refusal = self._try(plan, {**kept, name: config[name]}, only_asked=True)
            if refusal is None:
                kept[name] = config[name]
            else:
                found[name] = refusal.str()
        if not found:
            return None
        left_out |= found
        return kept

    def _with_ordinary_replicas(self, plan: TopicPlan, error: KafkaError) -> TopicPlan | None:
        """The plan with three replicas, to try instead of the number that the brokers choose; None if that cannot help.

        It helps only if the refusal is about replicas, the user asked for no number, and there are enough brokers.
        """
        enough = len(self._administration.brokers) >= ORDINARY_REPLICAS
        if plan.replication_factor > 0 or not enough or not re.search(r"replica", error.str(), re.IGNORECASE):
            return None
        return replace(plan, replication_factor=ORDINARY_REPLICAS)

    def _refusal(self, plan: TopicPlan, error: KafkaError) -> Finding:
        said = error.str()
        remedy = "mend that and repeat"
        if is_refusal(error):
            who = Principal.of(self._administration.properties).who
            remedy = (
                f"{who} may not Create it: deltaplane topics acls --principal administrator=User:NAME prints what to"
                " allow"
            )
        elif re.search(r"replica", said, re.IGNORECASE):
            remedy = "choose another number with --replication-factor (3 wherever loss matters), and repeat"
        elif re.search(r"partition", said, re.IGNORECASE):
            remedy = (
                "have more allowed, or give the definition fewer partitions before anything is written; then repeat"
            )
        elif error.name() in ("POLICY_VIOLATION", "INVALID_CONFIG"):
            create = f"--create --topic {plan.name} --partitions {plan.partitions}"
            remedy = (
                "it is refused with any settings: ask whoever runs the cluster, or make it by hand, then run deltaplane"
                f" topics check: {self._administration.command('kafka-topics.sh', create)}"
            )
        return Finding(self._cluster, plan.name, "creation", "the topic", f"a refusal ({said})", remedy)

    # Afterwards ------------------------------------------------------------------------------------------------------

    def _set_what_differs(self) -> None:
        """Set on new topics what was not sent because the cluster should have given it by default, but did not.

        If the brokers chose the number of replicas, the number that must be in sync is also known only now.
        """
        wanted = []
        for made, topic in self._await():
            entries = [
                ConfigEntry(
                    finding.setting,
                    _value(made.plan, finding),
                    incremental_operation=AlterConfigOpType.SET,
                )
                for finding in self._administration.check_settings(made.plan, topic)
                if finding.setting not in made.sent and finding.setting not in made.left_out
            ]
            if entries:
                wanted.append(ConfigResource(ResourceType.TOPIC, made.plan.name, incremental_configs=entries))
        if wanted:
            timeout = self._administration.timeout_seconds
            for future in self._client.incremental_alter_configs(wanted, request_timeout=timeout).values():
                # The check that follows finds what could not be set.
                error_of(future)

    def _await(self) -> Iterator[tuple[Made, TopicDescription]]:
        """The new topics, as soon as brokers show them: a topic is made before every broker knows it."""
        plans, until = [made.plan for made in self.made], time.monotonic() + self._administration.timeout_seconds
        while (there := self._administration.describe(plans)).keys() < {plan.name for plan in plans}:
            if time.monotonic() >= until:
                raise DeltaplaneError(
                    f"kafka: the {self._administration.cluster.name} cluster made topics that it does not show after"
                    f" {self._administration.timeout_seconds:g} seconds; look at the brokers' logs, then run deltaplane"
                    " topics check"
                )
            time.sleep(0.1)
        return ((made, there[made.plan.name]) for made in self.made)

    def explained(self, findings: Collection[Finding]) -> list[Finding]:
        """The findings; those on left-out settings get the broker's reason, and other left-out settings are added."""
        said = {(made.plan.name, name): text for made in self.made for name, text in made.left_out.items()}
        told = []
        for finding in findings:
            reason = said.pop((finding.topic, finding.setting), None)
            told.append(finding if reason is None else replace(finding, remedy=_by_hand(reason, finding.remedy)))
        plans = {made.plan.name: made.plan for made in self.made}
        for (topic, setting), reason in said.items():
            if setting in plans[topic].tuning:
                value = plans[topic].tuning[setting]
                remedy = _by_hand(reason, f"set it with: {self._administration.set_command(topic, setting, value)}")
                told.append(Finding(self._cluster, topic, setting, value, "the cluster's own", remedy, vital=False))
        return told


def _by_hand(reason: str, remedy: str) -> str:
    return f"it was refused ({reason}), and the topic made without it; have it allowed, or ask for it, then {remedy}"


def _value(plan: TopicPlan, finding: Finding) -> str:
    """The value to set for a finding; for the replicas in sync, the smallest number that is expected."""
    if finding.setting in plan.rules:
        return plan.rules[finding.setting].value
    found = re.search(r"[0-9]+", finding.expected)
    assert found is not None, "a number of replicas is expected as a number"
    return found[0]


def _names(text: str, setting: str) -> bool:
    """Whether a broker's message names a setting, and not a longer one that contains its name."""
    return re.search(rf"(?<![\w.-]){re.escape(setting)}(?![\w-]|\.\w)", text) is not None


def _is_of_no_setting(error: KafkaError) -> bool:
    """Whether a refusal is not about settings, but about rights, names, or brokers that are too few or away."""
    return is_refusal(error) or error.code() in PASSING or error.name() in _OF_NO_SETTING
