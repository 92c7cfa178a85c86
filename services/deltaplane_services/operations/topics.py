"""Making the topics of a stream, and saying what is wrong with those there are.

What each topic must be is a value (:mod:`topic_plans`); here it is compared with what a cluster has. Making them again
changes nothing: a topic that is right is left alone, and one that is wrong is a finding with the command that mends it,
since only its owner can know what else depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.topic_plans import plan_topics
from deltaplane_services.operations.topic_administration import Administration, Finding, NotTold
from deltaplane_services.operations.topic_making import TopicMaking


@dataclass(frozen=True)
class TopicReport:
    """What :func:`create_topics` did: the topics it made, and what is wrong with these and the rest."""

    created: tuple[str, ...]
    findings: tuple[Finding, ...]


def create_topics(settings: ServiceSettings, timeout_seconds: float = 30.0) -> TopicReport:
    """Make the topics that are missing, and report on all; doing it again changes nothing.

    What a cluster's policy refuses is left out where a topic can be made without it, and is a finding. Raises
    :class:`DeltaplaneError` where a cluster cannot be reached, and :class:`NotTold` where it tells nothing.
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
    """All that is wrong with the topics of a stream; empty where nothing is.

    Raises :class:`DeltaplaneError` where a cluster cannot be reached, and :class:`NotTold` where it tells nothing.
    """
    return [
        finding
        for cluster in settings.clusters
        for finding in Administration(cluster, timeout_seconds).check(plan_topics(settings, cluster))
    ]


__all__ = ["Finding", "NotTold", "TopicReport", "check_topics", "create_topics"]
