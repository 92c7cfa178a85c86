"""Making the topics of a stream, and reporting what is wrong with existing ones.

What each topic must be is a value (:mod:`topic_plans`); here it is compared with what a cluster has. Making the topics
again changes nothing. A topic that is wrong is reported with the command that corrects it, but not changed: only its
owner can know what else depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.topic_plans import plan_topics
from deltaplane_services.operations.topic_administration import Administration, Finding, NotTold
from deltaplane_services.operations.topic_making import TopicMaking


@dataclass(frozen=True)
class TopicReport:
    """The result of :func:`create_topics`: the topics that were made, and the findings on all topics."""

    created: tuple[str, ...]
    findings: tuple[Finding, ...]


def create_topics(settings: ServiceSettings, timeout_seconds: float = 30.0) -> TopicReport:
    """The report after making the topics that are missing; calling it again changes nothing.

    If a cluster's policy refuses a setting and the topic can be made without it, the setting is left out and reported.
    Raises :class:`DeltaplaneError` if a cluster cannot be reached, and :class:`NotTold` if it does not describe topics.
    """
    created: list[str] = []
    findings: list[Finding] = []
    for cluster in settings.clusters:
        administration = Administration(cluster, timeout_seconds)
        plans = plan_topics(settings, cluster)
        there = administration.describe(plans)
        making = TopicMaking(administration)
        making.create([plan for plan in plans if plan.name not in there])
        made = [one.plan.name for one in making.made]
        created += made
        findings += making.refused
        not_there = {finding.topic for finding in making.refused}
        to_check = [plan for plan in plans if plan.name not in not_there]
        findings += making.explained(administration.check(to_check, made, making.left_out))
    return TopicReport(tuple(created), tuple(findings))


def check_topics(settings: ServiceSettings, timeout_seconds: float = 30.0) -> list[Finding]:
    """All findings on the topics of a stream; empty if there are none.

    Raises :class:`DeltaplaneError` if a cluster cannot be reached, and :class:`NotTold` if it does not describe topics.
    """
    return [
        finding
        for cluster in settings.clusters
        for finding in Administration(cluster, timeout_seconds).check(plan_topics(settings, cluster))
    ]


__all__ = ["Finding", "NotTold", "TopicReport", "check_topics", "create_topics"]
