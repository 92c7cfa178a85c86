"""The types of arrays that the code speaks of, once for all of it: a plural of what each entry is.

Shapes stand in docstrings: ``float64[n, d]`` is an array of n rows and d columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Codes",
    "Flags",
    "Float32s",
    "Floats",
    "Int16s",
    "Int32s",
    "Int64s",
    "Integers",
    "Labels",
    "Positions",
    "Quantized",
    "Steps",
    "Texts",
    "UInt8s",
    "UInt32s",
    "UInt64s",
]

Floats = npt.NDArray[np.float64]
"""float64, wherever nothing else is said."""

Float32s = npt.NDArray[np.float32]

Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

UInt8s = npt.NDArray[np.uint8]
UInt32s = npt.NDArray[np.uint32]
UInt64s = npt.NDArray[np.uint64]

Integers = npt.NDArray[np.integer]
"""Integers of any width."""

Positions = npt.NDArray[np.intp]
"""Positions in other arrays."""

Flags = npt.NDArray[np.bool_]

Texts = npt.NDArray[np.str_]

Labels = npt.NDArray[Any]
"""Labels as callers of the estimators have them, of any type."""

Codes = npt.NDArray[np.int32] | npt.NDArray[np.int16]
"""Numbers of classes in a list of labels."""

Steps = npt.NDArray[np.int32 | np.int64]
"""Grid rows [n, d] as a grid places them: int32 if all have two limbs, ``|q| < 2**30``, else int64, ``|q| < 2**45``."""

Quantized = npt.NDArray[np.float64 | np.int32 | np.int64]
"""Grid rows [n, d]: integers as of :data:`Steps`, and float64 where they are about to be multiplied."""
