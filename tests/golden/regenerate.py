"""Writes the golden files anew: ``cd tests && python -m golden.regenerate``, in the project's environment.

To be run when a schema was changed ON PURPOSE. A file that changes here says that messages and stored logs of earlier
versions can no longer be read: that is a new version of the wire format, for the change log, and every stream has to be
started anew (see the README of the schemas).
"""

from __future__ import annotations

from golden.wire_examples import DIRECTORY, EXAMPLES


def main() -> None:
    """Write each example's bytes to its file, and remove files of no example."""
    DIRECTORY.mkdir(exist_ok=True)
    for stray in set(DIRECTORY.iterdir()) - {example.file for example in EXAMPLES.values()}:
        stray.unlink()
    for example in EXAMPLES.values():
        digits = example.write().hex()
        lines = [digits[at : at + 64] for at in range(0, len(digits), 64)]
        example.file.write_text("\n".join([*lines, ""]), "ascii")


if __name__ == "__main__":
    main()
