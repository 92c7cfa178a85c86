"""The definition file and the settings of a process: TOML, environment variables, client properties.

May import: the core and ``system``. Gives: :class:`~deltaplane_services.definition_file.settings.Settings`, checked,
and what a writer of another language has to know of a stream.
"""

from __future__ import annotations
