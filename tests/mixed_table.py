"""The made table of mixed columns, where tests look for it."""

from __future__ import annotations

from deltaplane_benchmarks.data.made_mixed import mixed_table

__all__ = ["mixed_table"]
