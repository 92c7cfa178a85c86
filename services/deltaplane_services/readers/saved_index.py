"""Row numbers that were saved beside a table: the index of a data frame, the row names of R.

They are no property of a row. Where a table was sorted before it was mixed and saved, its index tells the class, and a
model that has learned it is worth nothing on the next row. So they are left out, and that is said, unless the features
are named one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltaplane_services.readers.cells import read_number
from deltaplane_services.readers.lines import LineCutter
from deltaplane_services.readers.row_blocks import ReaderOptions
from deltaplane_services.readers.table import Dialect, first_rows

__all__ = ["note_of", "with_row_names", "without_saved_index"]

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


def with_row_names(names: Sequence[str], cutter: LineCutter, dialect: Dialect) -> tuple[list[str], bool]:
    """The names, one without letters put before them where rows begin with a name of their own; and whether the first
    column, being without a name, numbers or names the rows: its cells are all different.
    """
    rows = first_rows(dialect, cutter)
    longer = bool(rows) and bool(names[0]) and all(len(row) == len(names) + 1 for row in rows)
    # Where it is the last cell that is empty throughout, rows end in a delimiter, and do not begin with a name.
    longer = longer and any(row[-1].strip() for row in rows)
    if names[0] and not longer:
        return list(names), False
    firsts = [row[0].strip() for row in rows if len(row) == len(names) + longer]
    different = len(set(firsts)) == len(firsts) > 0
    if longer:
        return (["", *names], True) if different else (list(names), False)
    return list(names), different and all(map(_is_whole, firsts))


def _is_whole(text: str) -> bool:
    try:
        return read_number(text).is_integer()
    except ValueError:
        return False
