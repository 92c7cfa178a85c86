"""The command line: each command reads its options, calls the code that does the work, and reports errors."""

from __future__ import annotations

import sys

from deltaplane import __version__
from deltaplane.errors import ExtraMissing
from deltaplane.public_names import extra_needed

__all__ = ["main"]


def main() -> None:
    """Run the command line; if a library that it needs is missing, say so in one line and exit with code 2.

    ``--version`` needs none of these libraries. The whole run is inside the check, because a command may load a library
    only when it runs.
    """
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"deltaplane {__version__}\n")
        return
    try:
        with extra_needed("the command deltaplane", "services"):
            from deltaplane_services.cli.application import main as run

            run()
    except ExtraMissing as fault:
        sys.stderr.write(f"deltaplane: {fault}\n")
        sys.exit(2)
