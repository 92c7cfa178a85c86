"""A check that the topics of a worker or a merger are still those that it began with, with as many partitions.

If a topic is deleted and made again under the same name, a client goes on reading at its old offset, and silently skips
the first rows of the new log. And if partitions are added to a topic, ids move away from the partitions that hold their
rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltaplane.log.delta import TopicIds
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.kafka.topic_watch import TopicWatch
from deltaplane_services.processors.messages import RETIREMENTS, SAMPLES, TOPICS

__all__ = ["SourceTopics"]


class SourceTopics:
    """Topics of one stream, watched by ``watches``, one for each cluster; ``topics`` are names without the prefix."""

    def __init__(self, definition: StreamDefinition, watches: Sequence[TopicWatch], topics: Iterable[str]) -> None:
        self._definition = definition
        self._watches = watches
        self._names = {topic: f"{definition.name}.{topic}" for topic in topics}
        self._known: dict[str, str] = {}

    @property
    def ids(self) -> TopicIds:
        """The identifiers of samples and retirements, empty if they are not known."""
        return TopicIds(self._known.get(SAMPLES, ""), self._known.get(RETIREMENTS, ""))

    def look(self, answer_within_seconds: float = 0.0) -> list[str]:
        """The topics that were made anew since the last call.

        Brokers are asked now and then, and their answers not waited for. With ``answer_within_seconds`` they are asked
        now, and waited for that long.
        """
        changed = []
        for watch in self._watches:
            if answer_within_seconds:
                watch.ask_now(answer_within_seconds)
            else:
                watch.turn()
            for topic, name in self._names.items():
                if name in watch.ids and watch.ids[name] != self._known.get(topic):
                    if topic in self._known:
                        changed.append(topic)
                    self._known[topic] = watch.ids[name]
        return changed

    def faults(self) -> list[str]:
        """What keeps services from their work, in words, and what to do: silent brokers, missing or changed topics."""
        found = []
        for watch in self._watches:
            if watch.silence is not None:
                found.append(f"no broker answers: {watch.silence}")
            if gone := watch.missing & set(self._names.values()):
                found.append(f"missing: {', '.join(sorted(gone))}; make the topics with: deltaplane topics create")
            for topic, name in self._names.items():
                expected = 1 if TOPICS[topic].single else self._definition.partitions
                if (partitions := watch.partitions.get(name, expected)) != expected:
                    found.append(
                        f"topic {name} has {partitions} partitions, the stream {expected}: ids now go to partitions"
                        " that hold none of their rows. Stop the producers, copy the stream to one of more partitions"
                        " (deltaplane repartition), and let them write to that"
                    )
        return found
