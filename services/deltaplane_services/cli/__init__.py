"""The command line: every command reads options, calls what does the work, and turns errors into messages."""

from __future__ import annotations

import sys

from deltaplane import __version__
from deltaplane.errors import ExtraMissing
from deltaplane.public_names import extra_needed

__all__ = ["main"]


def main() -> None:
    """Run the command line; without the libraries that it needs, say in one line which they are, with exit code 2.

    ``--version`` is told without any of them. A command may load a library only when it runs, so running is in the
    block, too.
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
