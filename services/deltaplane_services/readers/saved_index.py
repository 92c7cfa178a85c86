"""Row numbers that were saved with a table: the index of a data frame, the row names of R.

They are no property of a row. If a table was sorted before it was mixed and saved, its index gives the class away, and
a model that has learned it is worth nothing on the next row. So these columns are left out, with a note, unless the
features are named one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltaplane_services.readers.cells import read_number
from deltaplane_services.readers.row_blocks import ReaderOptions

__all__ = ["is_whole", "note_of", "without_saved_index"]

_NAMES = re.compile(r"__index_level_\d+__|Unnamed: 0(?:\.\d+)?")


def note_of(names: Sequence[str]) -> list[str]:
    """The notes on columns that were left out; none if there are no such columns."""
    if not names:
        return []
    which = ", ".join(f"`{name}`" for name in names)
    what = "a saved row number" if len(names) == 1 else "saved row numbers"
    return [f"{which} left out of the features: {what}, which tells the order of rows; name the features to use it"]


def without_saved_index(
    names: Sequence[str], options: ReaderOptions, unnamed: Sequence[str] = ()
) -> tuple[ReaderOptions, list[str]]:
    """(the options with the saved indices among the ignored columns, the notes on that).

    ``unnamed`` are columns that are known to be saved indices, although their names do not show it.
    """
    if options.features is not None:
        return options, []
    taken = {options.label, options.id, options.time, *options.ignored}
    found = [name for name in names if (_NAMES.fullmatch(name) or name in unnamed) and name not in taken]
    return options.with_ignored(found), note_of(found)


def is_whole(text: str) -> bool:
    """Whether a cell is a whole number."""
    try:
        return read_number(text).is_integer()
    except ValueError:
        return False
