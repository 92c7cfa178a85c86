"""The formats of data files, each declared once: its name as an option, its title, and how names of files end.

``readers/reader.py`` has what opens each, and what its first bytes look like. This imports nothing, so that the help of
a command may use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FORMATS", "FORMAT_OF_SUFFIX", "NAMES", "TITLES", "FileFormat"]


@dataclass(frozen=True)
class FileFormat:
    """One format: its title, and the endings of file names that show it."""

    title: str
    suffixes: tuple[str, ...] = ()


FORMATS: Mapping[str, FileFormat] = {
    "csv": FileFormat("CSV", (".csv", ".tsv")),
    "parquet": FileFormat("Parquet", (".parquet", ".pq")),
    "arrow": FileFormat("Arrow (Feather)", (".arrow", ".feather", ".ipc")),
    "libsvm": FileFormat("LIBSVM", (".libsvm", ".svm", ".svmlight")),
    "arff": FileFormat("ARFF", (".arff",)),
    "keel": FileFormat("KEEL"),
    "jsonl": FileFormat("JSON", (".jsonl", ".ndjson", ".json")),
}
"""Every format, by the name that options and messages have for it."""

FORMAT_OF_SUFFIX = {suffix: name for name, one in FORMATS.items() for suffix in one.suffixes}


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


NAMES = _listed([*FORMATS])
TITLES = _listed([one.title for one in FORMATS.values()])
"""The formats in words, for helps of options."""
