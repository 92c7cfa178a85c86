"""The command line: every command reads options, calls what does the work, and turns errors into messages."""

from __future__ import annotations

from deltaplane_services.cli.application import main

__all__ = ["main"]
