"""Deltaplane: an exact classifier on a stream, whose statistics add, subtract and merge bit for bit.

This package is the pure core: it decides, and the services around it do. Nothing in here reads a clock, a network, an
environment or a random number, and importing this module loads nothing else.
"""

from __future__ import annotations

__version__ = "0.1.0"
