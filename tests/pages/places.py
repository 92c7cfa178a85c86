"""Which files are pages, and where each is run."""

from __future__ import annotations

from tidy.sources import TOP, files

PAGES = sorted(path for path in files() if path.endswith(".md") and (path.startswith("docs/") or path == "README.md"))

ON_KAFKA = (
    "docs/tutorials/kafka.md",
    "docs/how-to/python-client.md",
    "docs/how-to/rows-by-name.md",
    "docs/how-to/your-topics.md",
    "docs/how-to/monitor.md",
    "docs/export.md",
    "docs/how-to/serve.md",
    "docs/how-to/retire.md",
    "docs/how-to/audit.md",
    "docs/how-to/backup-and-copy.md",
    "docs/how-to/bootstrap-from-a-lake.md",
    "docs/how-to/refit-the-grid.md",
    "docs/how-to/remove-a-source.md",
)
"""Pages that need a broker, in the order in which a reader would read them: each goes on from those before it."""

ALONE = (
    "README.md",
    "docs/explanation/exactness.md",
    "docs/how-to/automatic-estimator.md",
    "docs/how-to/choose-windows.md",
    "docs/how-to/choose-what-to-optimise.md",
    "docs/how-to/scores.md",
    "docs/how-to/reasons.md",
    "docs/how-to/estimators.md",
    "docs/how-to/mixed-tables.md",
    "docs/how-to/replay-in-pieces.md",
    "docs/how-to/replay-in-python.md",
    "docs/how-to/producers.md",
    "docs/how-to/secure.md",
    "docs/install.md",
    "docs/reference/public.md",
    "docs/tutorials/own-csv.md",
)
"""Pages that need nothing."""

assert all((TOP / page).exists() for page in (*ON_KAFKA, *ALONE))
