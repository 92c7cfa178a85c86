"""``python -m deltaplane_benchmarks papers``: the same as ``deltaplane bench papers``, without an installed plugin."""

from __future__ import annotations

import sys

import typer

from deltaplane.errors import DeltaplaneError
from deltaplane_benchmarks.bench_cli import app

if __name__ == "__main__":
    try:
        app()
    except DeltaplaneError as fault:
        typer.secho(f"deltaplane: {fault}", fg=typer.colors.RED, err=True)
        sys.exit(2)
