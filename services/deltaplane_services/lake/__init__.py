"""A history of rows in files or in a lake: summed by processes, published as a source, retired from by id.

May import: the core, ``readers``, ``definition_file``, ``processors``, ``produce`` and ``kafka``. Gives: what the
command ``bootstrap`` does.
"""

from __future__ import annotations
