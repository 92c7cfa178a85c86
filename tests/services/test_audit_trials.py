"""An audit begins again if a log is trimmed while it reads, and says so once it has tried often enough."""

from __future__ import annotations

from typing import Any

import pytest

from deltaplane_services.kafka.log_errors import LogUnavailable, RecordsDeleted
from deltaplane_services.operations import audit


@pytest.mark.parametrize("deleted", range(audit.TRIALS))
def test_an_audit_begins_again_if_records_are_deleted_while_it_reads(
    monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    trials: list[Any] = [RecordsDeleted("samples-0: out of range") for _ in range(deleted)]

    def one(*_given: object) -> str:
        if trials:
            raise trials.pop()
        return "equal"

    monkeypatch.setattr(audit, "_audit", one)
    assert audit.audit(None) == "equal"  # type: ignore[arg-type, comparison-overlap]


@pytest.mark.parametrize(("fault", "trials"), [(RecordsDeleted, audit.TRIALS), (LogUnavailable, 1)])
def test_an_audit_that_cannot_read_says_why(
    monkeypatch: pytest.MonkeyPatch, fault: type[LogUnavailable], trials: int
) -> None:
    tried = []

    def one(*_given: object) -> str:
        tried.append(1)
        raise fault("samples-0: gone")

    monkeypatch.setattr(audit, "_audit", one)
    with pytest.raises(fault, match="samples-0: gone"):
        audit.audit(None)  # type: ignore[arg-type]
    assert len(tried) == trials
