"""Row numbers that were saved beside a table: the index of a data frame, the row names of R.

They are no property of a row. Where a table was sorted before it was mixed and saved, its index tells the class, and a
model that has learned it is worth nothing on the next row. So they are left out, and that is said, unless the features
are named one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltaplane_services.readers.cells import read_number
from deltaplane_services.readers.row_blocks import ReaderOptions

__all__ = ["is_whole", "note_of", "without_saved_index"]

_NAMES = re.compile(r"__index_level_\d+__|Unnamed: 0(?:\.\d+)?")


def note_of(names: Sequence[str]) -> list[str]:
    """What to say of columns that were left out, nothing where there are none."""
    if not names:
        return []
    which = ", ".join(f"`{name}`" for name in names)
    what = "a saved row number" if len(names) == 1 else "saved row numbers"
    return [f"{which} left out of the features: {what}, which tells the order of rows; name the features to use it"]


def without_saved_index(
    names: Sequence[str], options: ReaderOptions, unnamed: Sequence[str] = ()
) -> tuple[ReaderOptions, list[str]]:
    """The options with the saved indices among the columns ignored, and what to say of that.

    ``unnamed``: columns that are known to be one although they have no name of it.
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
