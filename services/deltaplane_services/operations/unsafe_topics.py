"""Checks of a running service's topics: unsafe settings are logged and counted in a metric.

The checks are those of ``deltaplane topics check``. They run in the background, at the start and at intervals, so that
both a change and its correction are noticed. Nothing waits for them.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence

from deltaplane_services.definition_file.settings import Cluster, ServiceSettings
from deltaplane_services.kafka.access import ROLES
from deltaplane_services.kafka.topic_plans import TopicPlan, plan_topics, topic_name
from deltaplane_services.operations.topic_administration import Administration, Finding, NotTold
from deltaplane_services.system.background import repeat_in_background

__all__ = ["ANSWER_SECONDS", "WATCH_SECONDS", "UnsafeSettings", "topics_watched"]

logger = logging.getLogger(__name__)

WATCH_SECONDS = 300.0
ANSWER_SECONDS = 20.0

UnsafeSettings = Mapping[str, int]
"""Topic without the stream's prefix to the number of its settings that may lose rows or stop the stream."""


def topics_watched(
    settings: ServiceSettings, role: str, tell: Callable[[UnsafeSettings], None], seconds: float = WATCH_SECONDS
) -> contextlib.AbstractContextManager[None]:
    """Check the topics that a role uses at intervals, within the block; ``tell`` is called with each result."""
    return repeat_in_background("topics", seconds, _UnsafeTopics(settings, role, tell).look)


class _UnsafeTopics:
    """Checks topics, and logs what has changed since it was last logged."""

    def __init__(self, settings: ServiceSettings, role: str, tell: Callable[[UnsafeSettings], None]) -> None:
        self._settings, self._role, self._tell = settings, role, tell
        self._said: dict[str, str] = {}

    def look(self) -> None:
        """Check every topic once. Raises :class:`DeltaplaneError` if a cluster does not answer."""
        unsafe: dict[str, int] = {}
        untold: list[str] = []
        for cluster in self._settings.clusters:
            administration = Administration(cluster, ANSWER_SECONDS)
            for topic, plan in self._plans(cluster).items():
                try:
                    findings = administration.check([plan])
                except NotTold:
                    untold.append(plan.name)
                    continue
                unsafe[topic] = sum(finding.vital for finding in findings)
                self._say(plan.name, findings)
        if untold:
            self._once(
                "",
                f"the settings of {', '.join(sorted(untold))} could not be checked: that needs the right to"
                f" DescribeConfigs (deltaplane topics acls --principal {self._role}=User:NAME prints it)",
                logging.INFO,
            )
        self._tell(unsafe)

    def _plans(self, cluster: Cluster) -> dict[str, TopicPlan]:
        """Topic without prefix to its plan, for the topics that the role uses on a cluster."""
        names = {topic for where in ("site", "central") for topic in ROLES[self._role].topics(where)}
        full = {topic_name(self._settings.definition, topic): topic for topic in names}
        return {full[plan.name]: plan for plan in plan_topics(self._settings, cluster) if plan.name in full}

    def _say(self, name: str, findings: Sequence[Finding]) -> None:
        """Log one line on a topic: its vital findings as a warning, or else the others at level INFO."""
        vital = [finding for finding in findings if finding.vital]
        if shown := vital or findings:
            level = logging.WARNING if vital else logging.INFO
            self._once(name, " | ".join(str(finding) for finding in shown), level)
        elif self._said.pop(name, None) is not None:
            logger.info("%s is as it should be now", name)

    def _once(self, about: str, words: str, level: int) -> None:
        if self._said.get(about) != words:
            self._said[about] = words
            logger.log(level, "%s", words)
