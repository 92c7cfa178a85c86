"""The embedded pipeline whose processes can be made to crash: what they hold in memory is lost."""

from __future__ import annotations

from deltaplane_services.embedded.embedded_runner import EmbeddedRunner, start_merger


class CrashingRunner(EmbeddedRunner):
    """A whole pipeline in one process, which a test may break at any point between two rounds."""

    def crash_worker(self, index: int, now: int) -> None:
        """Lose all that a worker holds in memory, and start it again."""
        self._workers[index].sources.clear()
        self.rebalance(now)

    def crash_merger(self) -> None:
        """Lose the merger's memory, and start it again from its checkpoints."""
        self.merger, self._delta_positions = start_merger(self.definition, self.broker)
