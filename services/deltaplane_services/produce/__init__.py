"""Rows of a file or a pipe as samples and retirements: chunks, event times, ids, and what was refused.

May import: the core, ``readers``, ``definition_file`` and ``kafka``. Gives: the feed that replay and ``produce`` share.
"""

from __future__ import annotations
