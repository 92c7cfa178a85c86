"""What a person sees of a replay: a bar while it runs, tables when it is done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from deltaplane.log import confusion
from deltaplane.log.headline import METRICS, headline, headline_name
from deltaplane.solve.objectives import GMEAN
from deltaplane_services.observe.blend_tables import blend_shares
from deltaplane_services.observe.report.labels import how_late
from deltaplane_services.replay.changes import changes, spans_lately
from deltaplane_services.replay.figures import figures, said_of
from deltaplane_services.replay.result import ReplayResult, Snapshot
from deltaplane_services.system.closed_pipe import PatientConsole
from deltaplane_services.system.printable import echo, plain

__all__ = [
    "COLUMNS_SHOWN",
    "LABELS_SHOWN",
    "MARKS_SHOWN",
    "REASONS_SHOWN",
    "REFRESH_SECONDS",
    "SHARES_OF",
    "SMALLEST_SHARE_SHOWN",
    "Console",
    "as_written",
    "number",
]

REFRESH_SECONDS = 0.1
MARKS_SHOWN = 6
SMALLEST_SHARE_SHOWN = 0.05
REASONS_SHOWN = 12
LABELS_SHOWN = 12
COLUMNS_SHOWN = 40
SHARES_OF = {"windows": "window", "C": "C", "weightings": "weighting", "cuts": "cut", "boundaries": "boundary"}


class Console:
    """Prints to standard output, or to standard error if that is needed for something else."""

    def __init__(self, *, to_error: bool) -> None:
        # What stood in a file is shown as text and never read as markup.
        self._console = PatientConsole(stderr=to_error, highlight=False, markup=False, emoji=False)

    @contextmanager
    def progress(self, *, quiet: bool = False) -> Iterator[Callable[[Callable[[], Snapshot]], None]]:
        """A live bar; yields what is to be called after every chunk."""
        columns = (
            SpinnerColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[rows]} rows  {task.fields[rate]} rows/s"),
            TextColumn("{task.fields[measure]} [bold]{task.fields[figure]}[/] (lately {task.fields[recent]})"),
            TextColumn("imbalance {task.fields[ratio]}"),
            TimeElapsedColumn(),
        )
        # If nobody looks, there is nothing to show, and a closed pipe must not end the run.
        blind = quiet or not self._console.is_terminal
        bar = Progress(
            *columns, console=self._console, transient=True, refresh_per_second=1 / REFRESH_SECONDS, disable=blind
        )
        with bar:
            of = headline_name(GMEAN)
            task = bar.add_task("replay", total=None, rows="0", rate="–", measure=of, figure="–", recent="–", ratio="–")
            shown = 0.0

            def show(take: Callable[[], Snapshot]) -> None:
                nonlocal shown
                now = time.monotonic()
                if now - shown >= REFRESH_SECONDS:
                    shown = now
                    _update(bar, task, take())

            yield show

    def warn(self, text: str) -> None:
        """Say it on standard error, whatever else stands there."""
        echo(f"deltaplane: {text}", typer.colors.YELLOW, err=True)

    def summary(self, result: ReplayResult, *, quiet: bool = False) -> None:
        """Print the closing tables; if ``quiet``, only warnings, refusals and what went wrong."""
        if result.decisions and not quiet:
            self._console.print(_columns(result))
        if not quiet:
            self._console.print(_overview(result))
        for warning in (*result.verdict.warnings, *said_of(result)):
            self._console.print(Text(f"warning: {plain(warning)}", "bold yellow"))
        for note in () if quiet else result.notes:
            self._console.print(Text(f"note: {plain(note)}", "yellow"))
        if result.refusals.total:
            self._console.print(_refusals(result))
        failed = result.verification is not None and not result.verification.passed
        if not quiet or failed or result.model.refusal is not None or result.ended_early is not None:
            self._console.print(_digest(result), soft_wrap=True)


def _update(bar: Progress, task: TaskID, snapshot: Snapshot) -> None:
    model = snapshot.model
    objective = GMEAN if model is None else model.objective
    of = model.plane.positive if model is not None and model.plane is not None and objective.needs_positive else None
    bar.update(
        task,
        total=None if snapshot.fraction is None else 1.0,
        completed=snapshot.fraction or 0.0,
        rows=f"{snapshot.rows:,}",
        rate=f"{snapshot.rows / max(snapshot.seconds, 1e-9):,.0f}",
        measure=headline_name(objective),
        figure=number(math.nan if model is None else headline(objective, model.scores, of)),
        recent=number(headline(objective, snapshot.recent, of)),
        ratio=number(math.nan if model is None else confusion.imbalance_ratio(model.counts), 2),
    )


def number(value: float, digits: int = 4) -> str:
    """A measure for people; what is undefined is a dash."""
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def _overview(result: ReplayResult) -> Table:
    model, definition = result.model, result.definition
    options = model.options
    table = Table(
        title=plain(f"{result.source}: {result.rows:,} rows, test-then-train"), title_justify="left", show_header=False
    )
    table.add_column(style="cyan")
    table.add_column()
    rate = result.rows / result.seconds if result.seconds else math.nan
    table.add_row("time", f"{result.seconds:.2f} s, {rate:,.0f} rows/s")
    table.add_row("scored", plain(_scored(result)))
    _quality(table, result)
    classes = ", ".join(f"{label}: {count:,}" for label, count in list(model.counts.items())[:12])
    table.add_row("imbalance ratio", plain(f"{number(confusion.imbalance_ratio(model.counts), 2)}   ({classes})"))
    if behind := _behind_the_rest(result):
        table.add_row(plain(definition.classes.rest), plain(behind))
    windows = ", ".join(map(str, definition.nested_windows.windows))
    table.add_row(
        "window", f"{windows}, {sum(model.counts.values()):,} rows live, {definition.partitions} partition(s)"
    )
    units = "standardized" if options.standardize else "raw"
    weighting: str = options.weighting if isinstance(options.weighting, str) else "explicit"
    c = f"C = {options.C:g}"
    if model.blend is not None:
        weighting = " or ".join(dict.fromkeys(choice.weighting for choice in model.blend.choices))
        c = f"C {', '.join(dict.fromkeys(f'{choice.C:g}' for choice in model.blend.choices))}"
    table.add_row("plane", f"{options.kind}, weighting {weighting}, {c}, {units}, model version {model.version:,}")
    if (leaning := blend_shares(model.leaning, definition)) is not None:
        table.add_row("leaning to", "\n".join(_leaning(name, shares) for name, shares in leaning.items()))
    if model.plane is not None:
        table.add_row("condition", f"{model.plane.condition:.3g}")
    table.add_row("samples", _outcomes(result))
    if retirements := _retirements(result):
        table.add_row("retirements", retirements)
    if result.marks:
        table.add_row("likely marks of missing", plain(_marks(result)))
    if result.rounding_error is not None:
        worst = int(result.rounding_error.argmax())
        table.add_row(
            "grid rounding", plain(f"at most {result.rounding_error[worst]:.2g} (feature {definition.features[worst]})")
        )
    return table


def _behind_the_rest(result: ReplayResult) -> str:
    """Which labels of the file stand behind the class that is not the positive one, with their rows."""
    classes = result.definition.classes
    if classes.positive is None:
        return ""
    labels = [(label, rows) for label, rows in result.labels.items() if classes.class_of(label) == classes.rest]
    named = ", ".join(f"{label}: {rows:,}" for label, rows in labels[:LABELS_SHOWN])
    if len(labels) > LABELS_SHOWN:
        rest = sum(rows for _, rows in labels[LABELS_SHOWN:])
        named += f", {len(labels) - LABELS_SHOWN} more: {rest:,}"
    return f"labels of the file: {named}" if named and labels[0][0] != classes.rest else ""


def _marks(result: ReplayResult) -> str:
    """Numbers that are likely to mean that there is none, and the option that makes them missing, to be copied."""
    marks = result.marks
    named = [f"{as_written(mark.value)} in {mark.feature} ({mark.rows:,} rows)" for mark in marks[:MARKS_SHOWN]]
    more = f" and {len(marks) - MARKS_SHOWN} more" if len(marks) > MARKS_SHOWN else ""
    values = list(dict.fromkeys(as_written(mark.value) for mark in marks))
    said = result.options.input
    if "," in (said.decimal, said.thousands):
        option = " ".join(f"--missing-values {value}" for value in values)
    else:
        option = f"--missing-values {','.join(values)}"
    why = "far out, and repeated exactly; they were taken as numbers, and are missing with"
    return f"{', '.join(named)}{more} of the first rows: {why} {option}"


def as_written(value: float) -> str:
    """The shortest text that is this number, and no other."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


def _quality(table: Table, result: ReplayResult) -> None:
    """The headline figure, and what it costs beside it."""
    model, positive = result.model, result.positive
    found = figures(result)
    first = found["headline"]
    figure = number(first["value"])
    table.add_row(plain(first["name"]), Text(figure, "bold") + _interval(found, _measure_of(first["metric"])))
    if found["served"] is not None:
        table.add_row("as served", Text(_as_served(found["served"], str(result.options.label_delay))))
    if model.unmet is not None:
        table.add_row("not within bounds", Text(plain(model.unmet), "bold yellow"))
    if first["metric"] != "gmean":
        table.add_row("G-mean", Text(number(found["gmean"])) + _interval(found, "gmean"))
    if positive is not None:
        table.add_row(
            plain(f"sensitivity ({positive})"),
            f"{number(found['sensitivity'])}   specificity {number(found['specificity'])}",
        )
        table.add_row("precision", f"{number(found['precision'])}   kappa {_agreement(found)}")
        table.add_row("false alarms", _alarms(found))
        table.add_row(
            "F-measure", f"{number(found['f_measure'])}   relative sensitivity {number(found['relative_sensitivity'])}"
        )
        if result.yardsticks.knows_rows:
            table.add_row("ROC-AUC", f"{number(found['roc_auc'])}   PR-AUC {number(found['pr_auc'])}")
    else:
        recalls = ", ".join(
            f"{label} {number(recall)}" for label, recall in list(confusion.recalls(model.scores).items())[:12]
        )
        table.add_row("recall by class", plain(recalls))
        table.add_row("kappa", _agreement(found))
    table.add_row("accuracy", number(found["accuracy"]))
    if found["baselines"] is not None:
        names = {"last_label": "last label" if found["served"] is None else "last label that had come"}
        shown = (f"{names.get(name, name)} {number(one['gmean'])}" for name, one in found["baselines"].items())
        table.add_row("G-mean without", ", ".join(shown))
    _changes(table, result)


def _agreement(found: Mapping[str, Any]) -> str:
    return f"{number(found['kappa'])}   Matthews correlation {number(found['matthews'])}"


def _changes(table: Table, result: ReplayResult) -> None:
    """The last fall of quality and the last shift of features, and how many there were; all are in the report."""
    found = changes(result, spans_lately(result.points))
    if found["falls"]:
        last = found["falls"][-1]
        recalls = f"{number(last['recall_before'], 2)} → {number(last['recall_during'], 2)}"
        what = f"recall of {last['class']} {recalls} in rows {last['rows_from']:,} to {last['rows_to']:,}"
        table.add_row("quality fell", plain(_last_of(found["falls"], what)))
    if found["drifts"]:
        last = found["drifts"][-1]
        most = last["features"][0]
        by = f" {most['shift']:+.2f} deviations" if math.isfinite(most["shift"]) else ", which was constant"
        what = f"by row {last['row']:,}: {most['feature']}{by}"
        table.add_row("features shifted", plain(_last_of(found["drifts"], what)))


def _last_of(every: Sequence[Any], what: str) -> str:
    return what if len(every) == 1 else f"{len(every)} times; at last {what}"


def _as_served(served: Mapping[str, Any], delay: str) -> str:
    """The G-mean of what was predicted when rows came, of which the labels came late."""
    late = how_late(delay)
    return f"G-mean {number(served['gmean'])} of {served['rows']:,} rows predicted as they came, labels {late}"


def _measure_of(metric: str) -> str:
    return METRICS[metric][0] if metric in METRICS else ""


def _interval(found: Mapping[str, Any], measure: str) -> Text:
    """The interval of a measure; empty if it has none."""
    low, high = found["intervals"].get(measure, (math.nan, math.nan))
    return Text(f"   {number(low)} to {number(high)} with 95 %" if math.isfinite(low) else "")


def _alarms(found: Mapping[str, Any]) -> str:
    a_day = found["false_alarms_per_day"]
    told = f"{number(found['false_alarms_per_1000_rows'], 2)} per 1,000 rows"
    return f"{told}, {number(a_day, 2)} per day" if math.isfinite(a_day) else told


def _scored(result: ReplayResult) -> str:
    """How many rows the figures rest on, and why others do not count."""
    verdict = result.verdict
    why = ", ".join(f"{count:,} {reason}" for reason, count in verdict.not_scored.items())
    return f"{verdict.scored:,} of {result.rows:,} rows" + (f"; not {why}" if why else "")


def _leaning(name: str, shares: dict[str, float]) -> str:
    """The choices that have most of the plane, the largest share first."""
    most = sorted(shares.items(), key=lambda item: -item[1])
    kept = [f"{choice} {share:.0%}" for choice, share in most if share >= SMALLEST_SHARE_SHOWN]
    return f"{SHARES_OF[name]} {', '.join(kept)}"


def _outcomes(result: ReplayResult) -> Text:
    totals = result.model.totals
    names = ("applied", "expired", "duplicate", "replaced", "late", "annihilated", "retired id", "values filled in")
    parts = [f"{totals[name]:,} {name}" for name in names if totals.get(name)]
    if result.thinned:
        parts.append(f"{result.thinned:,} thinned out")
    text = Text(", ".join(parts))
    if result.refusals.total:
        text.append(", " if parts else "").append(f"{result.refusals.total:,} refused", "yellow")
    return text


def _retirements(result: ReplayResult) -> str:
    prefix = "retirements "
    totals = result.model.totals
    return ", ".join(
        f"{count:,} {name.removeprefix(prefix)}" for name, count in totals.items() if name.startswith(prefix)
    )


def _columns(result: ReplayResult) -> Table:
    """What each column of the file became, and why."""
    width = len(result.definition.features)
    table = Table(title=plain(f"{result.source}: columns become {width} features"), title_justify="left")
    table.add_column("column")
    table.add_column("rule, and why")
    for one in result.decisions[:COLUMNS_SHOWN]:
        style = None if one.rule else "dim"
        text = Text(plain(one.reason), style or "")
        if one.warning:
            text.append(f"\n{plain(one.warning)}", "yellow")
        table.add_row(Text(plain(one.column), style or ""), text)
    if (more := len(result.decisions) - COLUMNS_SHOWN) > 0:
        table.add_row("…", f"{more} more; all are in the definition (--write-definition)")
    return table


def _refusals(result: ReplayResult) -> Table:
    refusals = result.refusals
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in refusals.counts.most_common())
    table = Table(title=plain(f"refused: {kinds}"), title_justify="left", title_style="yellow")
    table.add_column("rows", justify="right")
    table.add_column("reason, the first lines, what to do")
    for group in sorted(refusals.reasons.values(), key=lambda one: -one.count)[:REASONS_SHOWN]:
        lined = [one for one in group.examples if one.line_number]
        examples = [f"line {one.line_number:,}: {one.reason}" for one in lined if one.reason != group.reason]
        if alike := [f"{one.line_number:,}" for one in lined if one.reason == group.reason]:
            examples.insert(0, f"line{'s' if len(alike) > 1 else ''} {' and '.join(alike)}")
        cure = [f"→ {group.cure}"] if group.cure else []
        table.add_row(f"{group.count:,}", plain("\n".join([group.reason, *examples, *cure]), keep="\n"))
    return table


def _digest(result: ReplayResult) -> Text:
    text = Text(f"digest {result.model.digest}")
    check = result.verification
    if check is not None and check.passed and check.refused_alike:
        text.append(
            "\nverified: from scratch the live rows give the same digest, and no plane for the same reason",
            "green",
        )
    elif check is not None and check.passed:
        text.append(
            "\nverified: the live rows refitted from scratch give the same digest and the same weights, bit for bit",
            "green",
        )
    elif check is not None:
        difference = check.max_difference
        apart = "there is another plane, or none" if difference is None else f"a weight is {difference:g} apart"
        text.append(
            f"\nNOT VERIFIED: from scratch the digest is {check.digest}, {apart};"
            " please report this with the file and the command",
            "bold red",
        )
    if result.model.refusal is not None:
        text.append(
            f"\nthe last good plane is shown (version {result.model.plane_version}): {plain(result.model.refusal)}",
            "yellow",
        )
    if result.ended_early is not None:
        text.append(f"\nended early: {plain(result.ended_early)}", "bold yellow")
    return text
