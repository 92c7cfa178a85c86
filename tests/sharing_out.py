"""Which file of tests a process runs next, where several processes run them.

Tests that start brokers wait half of their time, and the others compute. So every other process begins with these, and
the rest with those, until one kind is used up: then all do the other. A file whose tests share what is costly to make
stays whole; and those that take longest come first, lest one process be left with one of them at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdist.scheduler import LoadScopeScheduling

STARTS_BROKERS = ("tests/kafka/", "tests/dashboards/")

LONGEST = frozenset(
    {
        "tests/browser/test_report_browser.py",
        "tests/fuzz/test_fuzz.py",
        "tests/kafka/test_audit_forged.py",
        "tests/kafka/test_chaos.py",
        "tests/kafka/test_first_minutes.py",
        "tests/kafka/test_pipeline_alerts.py",
        "tests/kafka/test_pipeline_alerts_apart.py",
        "tests/kafka/test_soak.py",
        "tests/laws/test_partition_laws.py",
        "tests/services/test_replay.py",
        "tests/services/test_report_page.py",
        "tests/simulation/test_faults.py",
    }
)
"""Files that take long by themselves, however few their tests; ``make test`` prints the longest tests at its end."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc] # It ships no types.
    """Gives each process the file that :func:`next_file` names."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: Any) -> None:
        number = int(node.gateway.id.removeprefix("gw"))
        files = {file: len(tests) for file, tests in self.workqueue.items()}
        self.workqueue.move_to_end(next_file(files, waits=number % 2 == 0), last=False)
        super()._assign_work_unit(node)


def next_file(files: Mapping[str, int], *, waits: bool) -> str:
    """The file to run next of ``files``, each with its number of tests, by a process that ``waits`` or computes."""

    def order(file: str) -> tuple[bool, bool, int]:
        return waits != file.startswith(STARTS_BROKERS), file not in LONGEST, -files[file]

    return min(files, key=order)
