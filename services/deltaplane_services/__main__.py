"""``python -m deltaplane_services`` is the command ``deltaplane``."""

from __future__ import annotations

from deltaplane_services.cli import main

main()
