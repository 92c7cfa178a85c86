"""The model: a plane, what it was made from, and how it has done so far.

A model record says enough to be checked: the digest of the statistics behind it, the position of every source in
them, and the options it was solved with. Where the newest statistics determine no plane, the model keeps the last good
one and says so in ``refusal``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltaplane.candidates import Blend
from deltaplane.delta import Source
from deltaplane.metrics import Confusion
from deltaplane.options import SolverOptions
from deltaplane.solver import Plane
from deltaplane.window import NO_WATERMARK

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SourcePosition:
    """How much of one source a model contains; ``watermark`` is the largest event time that source has applied.

    ``owner`` is the writer whose deltas count, as of ``read_to``, the first offset of the source's deltas partition
    that the merger has not read. Nothing of a ``barred`` source counts.
    """

    source: Source
    sequence: int
    samples: int
    retirements: int
    watermark: int
    owner: str = ""
    read_to: int = 0
    barred: bool = False


@dataclass(frozen=True, eq=False)
class Model:
    """One published state of the classifier.

    ``plane_version`` is the version that first had this plane: lower than ``version`` where solving has been refused
    since. ``counts`` are live rows by class, ``scores`` the prequential confusion of all samples so far, ``totals``
    outcomes of all samples and retirements so far. ``created`` and ``watermark`` are milliseconds since the epoch.
    ``blend``: in the automatic mode the candidates that ``plane`` is made of, refusals included.
    """

    version: int
    stream_fingerprint: bytes
    data_fingerprint: bytes
    created: int
    plane: Plane | None
    plane_version: int
    refusal: str | None
    options: SolverOptions
    digest: str
    counts: Mapping[str, int]
    positions: tuple[SourcePosition, ...]
    scores: Confusion
    totals: Mapping[str, int]
    watermark: int = NO_WATERMARK
    blend: Blend | None = None

    def contains(self, source: Source, sequence: int) -> bool:
        """Whether the tile with this sequence number of a source is in the model."""
        return any(position.source == source and position.sequence > sequence for position in self.positions)

    def decisions(self, row: Floats) -> dict[str, float]:
        """Class label to decision value x·w - b of one row float64[D-1], by the plane that has the class on its side.

        The row is as the plane takes it: see :meth:`StreamDefinition.plane_inputs`.
        """
        if self.plane is None:
            return {}
        sides = {label: self.plane.row_of(label) for label in self.plane.classes}
        return {label: float(row @ side[0] - side[1]) for label, side in sides.items() if side is not None}
