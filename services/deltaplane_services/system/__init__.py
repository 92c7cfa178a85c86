"""The operating system: signals, threads, memory, files that are written whole or not at all, and the terminal.

May import: the core. Gives: what every command and service needs of its process; nothing here knows of a stream.
"""

from __future__ import annotations
