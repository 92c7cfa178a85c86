"""Whether a stream is curved by itself: when the feature map ``auto`` is a mixed map, and why it is none otherwise.

Curved candidates take two to five times the processor time of flat ones, which stay beside them. That is worth it on
streams such as those it was measured on: up to eight classes, and up to 54 features. On others the map is left out,
unless somebody asks for the mixed map by its name.
"""

from __future__ import annotations

from deltaplane.stream.nested_windows import FEWEST_UNITS, ROWS_OF_A_UNIT, NestedWindows

__all__ = ["CLASSES_OF_AUTO", "FEATURES_OF_AUTO", "ROWS_OF_A_SCALE", "units_of_windows", "why_flat"]

FEATURES_OF_AUTO = 64
"""The features of a row up to which ``auto`` is curved: the widest stream that was measured has 54. With them a system
has fewer than 256 unknowns. Of larger ones the last digit of a condition estimate may depend on where memory lies."""

CLASSES_OF_AUTO = 8
"""The classes up to which ``auto`` is curved: eight make a delta four times as large as two. With open classes there is
room for 27 or more beside a map, three times as many as these, so that classes that come later are not refused."""

ROWS_OF_A_SCALE = 2
"""One row has no deviation, so all of its values would be the centers of a map without scales."""


def why_flat(
    features: int, rows: int, classes: int, nested_windows: NestedWindows | None = None, most: int = FEWEST_UNITS
) -> str | None:
    """The reason why the map ``auto`` is none, with what to do about it; None if it is a mixed map.

    ``features`` of a row; ``rows`` and ``classes``: the numbers of first rows and of classes that are known; ``most``:
    the largest number of units.
    """
    if classes > CLASSES_OF_AUTO:
        return (
            f"each class makes a delta larger, and there are {classes}, more than {CLASSES_OF_AUTO}; the map 'mixed'"
            " curves it all the same"
        )
    if features > FEATURES_OF_AUTO:
        return (
            f"it was measured on narrow tables, and this one has {features} features, more than {FEATURES_OF_AUTO};"
            " the map 'mixed' curves it all the same"
        )
    if rows < ROWS_OF_A_SCALE:
        return f"{rows} first rows tell no scales of the features; give {ROWS_OF_A_SCALE} or more at first"
    if nested_windows is not None and not units_of_windows(most, nested_windows):
        return f"the longest window is too short; have one of {FEWEST_UNITS * ROWS_OF_A_UNIT} rows or more"
    return None


def units_of_windows(most: int, nested_windows: NestedWindows | None) -> int:
    """The number of units, at most ``most``, that the longest of some windows has statistics of; ``most`` without."""
    if nested_windows is None:
        return most
    return max(window.units(most) for window in nested_windows.windows)
