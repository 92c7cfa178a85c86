"""Every target of the fuzzer."""

from __future__ import annotations

from fuzz import data_files, definitions, pages, records
from fuzz.target import Target


def every_target() -> list[Target]:
    """All that reads what comes from outside."""
    return [*records.targets(), *data_files.targets(), *definitions.targets(), *pages.targets()]
