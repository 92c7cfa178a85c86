"""The command line: every command reads options, calls what does the work, and turns errors into messages."""

from __future__ import annotations

import sys

from deltaplane.errors import ExtraMissing
from deltaplane.public_names import extra_needed

__all__ = ["main"]


def main() -> None:
    """Run the command line; without the libraries that it needs, say in one line which they are, with exit code 2."""
    try:
        with extra_needed("the command deltaplane", "services"):
            from deltaplane_services.cli.application import main as run
    except ExtraMissing as fault:
        sys.stderr.write(f"deltaplane: {fault}\n")
        sys.exit(2)
    run()
