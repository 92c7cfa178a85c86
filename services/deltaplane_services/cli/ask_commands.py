"""``deltaplane query`` and ``deltaplane predict``: predictions of a stream's model for rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltaplane.errors import DefinitionError
from deltaplane_services.cli.file_options import FormatOptions, TimeOptions, read_definition
from deltaplane_services.cli.option_groups import with_groups
from deltaplane_services.cli.shared_options import AsJson, StreamOptions
from deltaplane_services.system.printable import echo, json_text

if TYPE_CHECKING:
    from deltaplane.log.records import Prediction, Unanswered

__all__ = ["predict", "query", "register"]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(query)
    app.command()(predict)


@with_groups
def query(
    rows: Annotated[
        list[str],
        typer.Argument(help="Rows in JSON: an object of columns by name, or an array of features.", metavar="ROW..."),
    ],
    stream: StreamOptions,
    reasons: Annotated[bool, typer.Option("--reasons", help="Say which columns contribute most, too.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the answers.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Ask the scorers of a live stream about rows; exit code 1 if one has no answer; the reason is printed.

    deltaplane query '{"amount": 12}' --definition stream.toml
    """
    from deltaplane.log.records import Unanswered
    from deltaplane_services.query_client import QueryClient

    asked = [_row(text) for text in rows]
    with QueryClient(stream.settings()) as client:
        answers = client.ask_all(asked, wait, ("probabilities", "reasons") if reasons else ("probabilities",))
    if as_json:
        typer.echo(json_text([_as_json(one) for one in answers]))
    for one in () if as_json else answers:
        echo(_line(one), typer.colors.YELLOW if isinstance(one, Unanswered) else None)
    if any(isinstance(one, Unanswered) for one in answers):
        raise typer.Exit(1)


def _row(text: str) -> Any:
    try:
        row = json.loads(text)
    except ValueError as fault:
        raise DefinitionError(f"query: expected a row in JSON, got {text[:60]!r}: {fault}") from None
    if not isinstance(row, dict | list) or not row:
        raise DefinitionError(f"query: expected an object of columns, or an array of features, got {text[:60]!r}")
    return row


def _line(answer: Prediction | Unanswered) -> str:
    from deltaplane.log.records import Unanswered

    if isinstance(answer, Unanswered):
        return f"no answer: {answer.kind}: {answer.reason}"
    chances = ", ".join(f"{label} {chance:.4f}" for label, chance in answer.probabilities.items())
    why = ", ".join(f"{column} {part:+.4g}" for column, part in answer.reasons)
    parts = [
        answer.predicted,
        f"decision value {answer.decisions[answer.predicted]:.6g}",
        f"probabilities {chances}" if chances else "probabilities are not known yet",
        f"model {answer.model_version}",
        *([f"because of {why}"] if why else []),
    ]
    return "; ".join(parts)


def _as_json(answer: Prediction | Unanswered) -> dict[str, object]:
    from deltaplane.log.records import Unanswered

    if isinstance(answer, Unanswered):
        return {"class": None, "kind": answer.kind, "reason": answer.reason, "model_version": answer.model_version}
    return {
        "class": answer.predicted,
        "decisions": dict(answer.decisions),
        "probabilities": dict(answer.probabilities) or None,
        "reasons": [{"column": column, "contribution": part} for column, part in answer.reasons],
        "model_version": answer.model_version,
    }


@with_groups
def predict(
    file: Annotated[
        str, typer.Argument(help="Rows in any file that `replay` reads, or - for standard input; no label is needed.")
    ],
    stream: StreamOptions,
    form: FormatOptions,
    model: Annotated[
        Path | None, typer.Option(help="What `model export` has written, instead of the live model; needs no broker.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write to a file that ends in .csv or .parquet instead of standard output.")
    ] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="Column with ids, to be written beside.")] = None,
    reasons: Annotated[bool, typer.Option("--reasons", help="Write which columns contribute most, too.")] = False,
) -> None:
    """Write what a model says of each row of a file: row, id, predicted, score, probability, model_version, refused.

    deltaplane predict new.csv --definition stream.toml --out scored.csv
    """
    from deltaplane_services.operations.model_listing import newest_model
    from deltaplane_services.operations.predict import Asked, options_of, predict_file
    from deltaplane_services.serve.model_file import read_model_file
    from deltaplane_services.system.output_files import PRIVATE, OutputFile
    from deltaplane_services.system.table_files import check_kind

    check_kind(out, "out")
    file_of_stream = read_definition(stream.definition, TimeOptions(), form)
    if model is not None:
        definition = file_of_stream.definition
        exported = read_model_file(model, definition)
        asked = Asked(definition, exported.plane, exported)
    else:
        settings = stream.settings()
        live = newest_model(settings)
        if live.plane is None:
            raise DefinitionError(f"predict: model {live.version} has no plane yet: {live.refusal}")
        asked = Asked(settings.definition, live.plane, live)
    options = options_of(file_of_stream, asked.definition, id_column)
    if out is None:
        done = predict_file(file, options, asked, sys.stdout.buffer, ".csv", why=reasons)
    else:
        with OutputFile(out, "out", PRIVATE) as output:
            done = predict_file(file, options, asked, output.file, out.suffix, why=reasons)
            output.keep()
    for note in done.notes:
        echo(f"note: {note}", err=True)
    if out is not None:
        echo(f"{done.rows:,} rows in {out}", err=True)
