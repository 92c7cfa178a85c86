"""The settings of a client in a program of somebody's own: a definition file, and what the program says."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltaplane_services.definition_file.definition_tables import load_tables
from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings

__all__ = ["settings_of"]


def settings_of(definition: Path, given: Mapping[str, Any]) -> ServiceSettings:
    """What is given over the environment over the definition file, as for a command of the same stream.

    Raises :class:`deltaplane.errors.DefinitionError` for a file that is not there or says something wrong, and for a
    setting that there is not.
    """
    return resolve_settings(dict(given), os.environ, load_tables(definition), socket.gethostname())
