"""Rows of a file or a pipe turned into samples and retirements: chunks, event times, ids, refused rows.

May import: the core, ``readers``, ``definition_file`` and ``kafka``. Gives: the feed that replay and ``produce`` share.
"""

from __future__ import annotations
