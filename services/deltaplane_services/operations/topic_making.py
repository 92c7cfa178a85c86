"""Making topics where somebody else decides what may be made.

A managed cluster has a policy: some settings may not be touched, some values not be exceeded, and a topic that asks for
one of them is refused as a whole, even where it asks for what it would get anyway. So only that is asked for which the
cluster does not give by itself; what is refused all the same is left out, one setting at a time, and named afterwards
with the broker's own words. A policy may also want a setting said that need not be; then it is said.
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
from deltaplane_services.kafka.client_errors import PASSING
from deltaplane_services.kafka.membership import Principal, is_refusal
from deltaplane_services.kafka.topic_plans import TopicPlan
from deltaplane_services.operations.topic_administration import Administration, Finding, error_of

__all__ = ["ORDINARY_REPLICAS", "THROTTLED_PAUSE_SECONDS", "Made", "TopicMaking"]

THROTTLED_PAUSE_SECONDS = 1.0
ORDINARY_REPLICAS = 3
"""Replicas that are tried where a policy refuses as many as the brokers would have chosen."""

_OF_NO_SETTING = {
    "INVALID_REPLICATION_FACTOR",
    "INVALID_PARTITIONS",
    "INVALID_TOPIC_EXCEPTION",
    "TOPIC_EXCEPTION",
    "NOT_CONTROLLER",
}


@dataclass(frozen=True)
class Made:
    """A topic as it was made: the settings that were sent, and those left out, each with what the broker said."""

    plan: TopicPlan
    sent: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


class TopicMaking:
    """Makes topics on one cluster: ``made`` has those that were made, ``refused`` a finding for each other."""

    def __init__(self, administration: Administration) -> None:
        self._administration = administration
        self._client = administration.client
        self._cluster = administration.cluster.name
        self._until = time.monotonic() + administration.timeout_seconds
        self.made: list[Made] = []
        self.refused: list[Finding] = []

    @property
    def left_out(self) -> set[tuple[str, str]]:
        """Topics and settings that they were made without."""
        return {(made.plan.name, setting) for made in self.made for setting in made.left_out}

    def create(self, plans: Sequence[TopicPlan]) -> None:
        """Make these topics; one that somebody else has made meanwhile is left as it is."""
        if not plans:
            return
        defaults = self._administration.defaults()
        wanted = [(plan, plan.config_beside(defaults)) for plan in plans]
        # All at once, as the brokers are quickest; what is refused is looked at one by one.
        for (plan, sent), error in zip(wanted, self._errors(wanted), strict=True):
            self._settle(plan, sent, error)
        self._set_what_differs()

    def _errors(self, wanted: Sequence[tuple[TopicPlan, Mapping[str, str]]]) -> list[KafkaError | None]:
        """Ask for topics with settings; what came of each."""
        topics = [
            NewTopic(plan.name, plan.partitions, plan.replication_factor, config=dict(config))
            for plan, config in wanted
        ]
        timeout = self._administration.timeout_seconds
        futures = self._client.create_topics(topics, request_timeout=timeout, operation_timeout=timeout)
        return [error_of(futures[plan.name]) for plan, _ in wanted]

    def _try(self, plan: TopicPlan, config: Mapping[str, str], *, only_asked: bool = False) -> KafkaError | None:
        """Ask for one topic, or only whether it would be made. A cluster that has had enough for now is waited for."""
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
        """Take note of what was made; try again with other settings where they are what was refused."""
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
        """The settings to try next; those left out, and those said on demand, are noted. None where no other will do.

        A broker's words may name what is allowed as well as what is not. So each setting is put to it by itself, the
        most needed first, and words only lead to settings that were not said because they need not be.
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
        """The plan with three replicas, where the brokers' own number was refused and nobody asked for another."""
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
        """Give new topics what was not asked for, because the cluster was thought to give it, and does not.

        Where the brokers chose the number of replicas, how many must be in sync can be known only now, too.
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
                # What cannot be set is found by the check that follows.
                error_of(future)

    def _await(self) -> Iterator[tuple[Made, TopicDescription]]:
        """The new topics, as soon as they can be seen: they are made before they are known to every broker."""
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
        """The findings, those of settings that were left out with the broker's reason; and what else was left out."""
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
    """The value that a setting is to have; of the replicas in sync, the number that was expected at least."""
    if finding.setting in plan.rules:
        return plan.rules[finding.setting].value
    found = re.search(r"[0-9]+", finding.expected)
    assert found is not None, "a number of replicas is expected as a number"
    return found[0]


def _names(text: str, setting: str) -> bool:
    """Whether a broker's words name a setting, and not one that has its name in another's."""
    return re.search(rf"(?<![\w.-]){re.escape(setting)}(?![\w-]|\.\w)", text) is not None


def _is_of_no_setting(error: KafkaError) -> bool:
    """Whether a refusal has nothing to do with settings: rights, brokers that are too few or away, names."""
    return is_refusal(error) or error.code() in PASSING or error.name() in _OF_NO_SETTING
