"""What a change costs: the files that mention one typical example of each kind of thing that the product has many of.

A file that mentions the example by name is taken for one that would have to change if another of its kind came. That is
too many rather than too few: tests, say, take the same example for other ends. What was decided, and the changelog, are
left out, since they are written once and never changed.

:func:`mentions` takes any tree: what the counts were before comes from an older one, unpacked by ``git archive``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from generate.tables import code, table

TOP = Path(__file__).resolve().parents[2]

AREAS: Mapping[str, tuple[str, ...]] = {
    "Product": ("pipeline", "services", "schemas", "benchmarks"),
    "Deployment": ("deploy", "compose.yaml"),
    "Tests": ("tests",),
    "Pages": ("docs", "README.md", "SECURITY.md"),
}
"""Where files are counted: a column, and the files and directories of it."""

_KINDS_OF_FILE = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".avsc"}
_LEFT_OUT = ("docs/decisions", "docs/generate/change_cost.py", "tests/pages/test_change_cost.py")


@dataclass(frozen=True)
class Example:
    """One of a kind: ``words`` is a pattern of the names by which files mention it.

    ``begin``: the files, below ``pipeline`` or ``services``, in which another one is declared. ``before``: how many
    files mentioned it, by column, while what a topic, a window, a solver or a map is was decided on in several modules.
    """

    kind: str
    name: str
    words: str
    begin: tuple[str, ...]
    before: tuple[int, ...]


EXAMPLES = (
    Example(
        "a file format",
        "ARFF",
        r"(?i)\barff\b|\w_arff\b|\barff_\w",
        (
            "deltaplane_services/definition_file/file_formats.py",
            "deltaplane_services/readers/reader.py",
            "deltaplane_services/readers/arff_format.py",
        ),
        (10, 0, 5, 3),
    ),
    Example("a solver kind", "lssvm", r"\blssvm\b", ("deltaplane/solve/solver_options.py",), (5, 0, 12, 2)),
    Example(
        "a metric",
        "deltaplane_filled_values_total",
        r"deltaplane_filled_values_total|metric_names\.FILLED\b",
        (
            "deltaplane_services/observe/metrics/metric_names.py",
            "deltaplane_services/observe/metrics/stream_metrics.py",
        ),
        (2, 1, 1, 0),
    ),
    Example(
        "a metric with an alert",
        "deltaplane_misplaced_total",
        r"deltaplane_misplaced_total|_names\.MISPLACED\b",
        (
            "deltaplane_services/observe/metrics/metric_names.py",
            "deltaplane_services/observe/metrics/stream_metrics.py",
        ),
        (2, 3, 2, 2),
    ),
    Example(
        "a topic",
        "checkpoints",
        r"\bCHECKPOINTS\b|\"checkpoints\"",
        ("deltaplane_services/processors/topics.py",),
        (10, 0, 15, 0),
    ),
    Example(
        "a window kind",
        "time",
        r"\bkind [!=]= \"(time|count|all)\"|\"time\", \"all\"",
        ("deltaplane/stream/nested_windows.py", "deltaplane/window/sliding.py"),
        (15, 0, 5, 0),
    ),
    Example(
        "a command",
        "verify-receipt",
        r"verify[-_]receipt",
        ("deltaplane_services/cli/retire_commands.py", "deltaplane_services/operations/verify_receipt.py"),
        (4, 0, 5, 5),
    ),
    Example("a feature map", "fourier", r"(?i)\bfourier\b", ("deltaplane/maps/feature_maps.py",), (6, 0, 18, 2)),
)


def files(top: Path) -> dict[str, list[Path]]:
    """The files that are counted, by column."""
    found: dict[str, list[Path]] = {}
    for area, places in AREAS.items():
        paths = [
            path for place in places for path in ([top / place] if (top / place).is_file() else _below(top / place))
        ]
        found[area] = [path for path in paths if not path.relative_to(top).as_posix().startswith(_LEFT_OUT)]
    return found


def _below(directory: Path) -> Iterable[Path]:
    return sorted(path for path in directory.rglob("*") if path.suffix in _KINDS_OF_FILE and path.is_file())


def mentions(top: Path, examples: Iterable[Example] = EXAMPLES) -> dict[str, dict[str, list[Path]]]:
    """The files below ``top`` that mention each example, by kind of thing and column."""
    texts = {area: [(path, path.read_text("utf-8")) for path in paths] for area, paths in files(top).items()}
    return {
        example.kind: {
            area: [path for path, text in of_area if re.search(example.words, text)] for area, of_area in texts.items()
        }
        for example in examples
    }


def change_costs() -> str:
    """A line for each kind of thing: its example, files by column, before and now, and where it is declared."""
    rows = []
    found = mentions(TOP)
    for example in EXAMPLES:
        counts = [len(paths) for paths in found[example.kind].values()]
        both = [*zip(example.before, counts, strict=True), (sum(example.before), sum(counts))]
        cells = [f"{was} → {now}" if was != now else str(now) for was, now in both]
        rows.append([example.kind, code(example.name), *cells, ", ".join(map(code, example.begin))])
    return table(["Another", "Counted by", *AREAS, "All", "Begin in"], rows)
