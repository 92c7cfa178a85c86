"""Reports and pictures as files. A command checks BEFORE a replay whether they can be written."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from deltaplane_services.observe.report.compare import Runs
from deltaplane_services.observe.report.json_fields import ReportError
from deltaplane_services.observe.report.record import Run
from deltaplane_services.system.output_files import check_output, write_text

__all__ = ["check_outputs", "draw", "write_comparison", "write_report"]


def check_outputs(report: Path | None, plots: Path | None = None) -> None:
    """Raise :class:`ReportError` or :class:`OutputRefused` if the report or the pictures cannot be written.

    That is so if the extra ``report`` is not installed, or if a directory is missing. The directory of the pictures is
    made only when there are pictures.
    """
    if report is None and plots is None:
        return
    for asked, library in ((report, "plotly"), (plots, "matplotlib")):
        if asked is not None and importlib.util.find_spec(library) is None:
            raise ReportError(
                f"pictures are drawn by {library}, which is not installed: pip install 'deltaplane[report]'"
            )
    check_output(report, "report")
    if plots is not None and plots.exists() and not plots.is_dir():
        raise ReportError(f"plots: expected a directory, or a name for one, got the file {str(plots)!r}")
    if plots is not None:
        # No directory is made yet, so that a run that fails leaves nothing behind.
        there = next(place for place in (plots, *plots.absolute().parents) if place.exists())
        check_output(there / "picture.png", "plots")


def draw(run: Run, report: Path | None, plots: Path | None) -> None:
    """Write the report and the pictures of a run, as far as they are asked for.

    Raises :class:`OutputRefused` if a file cannot be written, and :class:`ReportError` if the directory cannot be made.
    """
    if report is not None:
        write_report(run, report)
    if plots is not None:
        from deltaplane_services.observe.report.charts import charts_of
        from deltaplane_services.observe.report.plots import write_plots

        made = _made(plots)
        try:
            write_plots(charts_of(run), run.stream, plots)
        except BaseException:
            for directory in made:
                directory.rmdir()
            raise


def write_report(run: Run, to: Path) -> None:
    """Write the page of a run. Raises :class:`OutputRefused` if it cannot be written."""
    from deltaplane_services.observe.report.page import run_page

    _write_page(run_page(run), to)


def write_comparison(runs: Runs, to: Path) -> None:
    """Write the page of several runs. Raises :class:`OutputRefused` if it cannot be written."""
    from deltaplane_services.observe.report.comparison_page import comparison_page

    _write_page(comparison_page(runs), to)


def _write_page(page: str, to: Path) -> None:
    write_text(to, page, "report")


def _made(directory: Path) -> list[Path]:
    """The directories that were made so that ``directory`` exists, the innermost first. Raises :class:`ReportError`."""
    absent = [place for place in (directory, *directory.parents) if not place.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise ReportError(f"plots: the directory {str(directory)!r} cannot be made: {fault.strerror}") from None
    return absent
