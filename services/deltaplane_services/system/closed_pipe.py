"""Printing that ends when nobody reads any more (``| head``), and with it nothing else: files and exit codes stay.

It is for commands that print what they have done already. One that prints as long as somebody reads must end instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import rich.console

__all__ = ["PatientConsole", "while_somebody_reads"]


class PatientConsole(rich.console.Console):
    """A console of Rich that prints nothing more once its pipe is closed; Rich's own would end the program."""

    def on_broken_pipe(self) -> None:
        """Print nothing more."""
        self.quiet = True
        _let_go()


@contextmanager
def while_somebody_reads() -> Iterator[None]:
    """Leave the block at the first text that a closed pipe does not take, and let no later text fail."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go()


def _let_go() -> None:
    """Give standard output to nobody, so that what is left in it does no harm when it is flushed at the end."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, sys.stdout.fileno())
    os.close(nobody)
