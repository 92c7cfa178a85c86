"""What to do about refused rows: the flags of the command line that remove the reason, if there are any."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from deltaplane.columns.cells import Word

__all__ = ["cure_of", "cure_of_text", "cure_of_texts"]

_NUMBER_WITH_COMMA = re.compile(r"[+-]?[0-9]+(?:,[0-9]+)+(?:\.[0-9]+)?")
_NUMBER_WITH_POINTS = re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{3})+(?:,[0-9]+)?|[+-]?[0-9]*,[0-9]+")
_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_GROUPED = r"[+-]?[0-9]{1,3}(?:%s[0-9]{3})+(?:[.,][0-9]+)?"
_OTHER_FORMS = (
    re.compile(r"[+-]?(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+)?(?:,[0-9]*)?"),
    re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9]*)?"),
    *(
        re.compile(rf"[+-]?[0-9]+(?:[.,][0-9]+)?|{_GROUPED % sign}")
        for sign in (" ", "'", "_", "\u2019", "\u00a0", "\u202f")
    ),
)
_SIGNS_OF_UNITS = " $€£%"
_NOT_A_NUMBER = re.compile(r"the feature `(?P<name>.+?)` is (?P<text>.+), which is not a number", re.DOTALL)
_MISSING = re.compile(r"the feature `(?P<name>.+)` is missing", re.DOTALL)
_UNDECLARED = re.compile(r"the feature `(?P<name>.+?)` is .+, which is not among its declared values", re.DOTALL)
_NO_RULE_READS = re.compile(r"column (?P<quoted>'.*?'|\".*?\") (?P<fault>[^:;]+)(?:: (?P<cell>.*?))?; [^;]*", re.DOTALL)
_LATE_KEY = re.compile(r"the key `(?P<name>.+)` is none of the first rows", re.DOTALL)

_CURES = (
    (
        re.compile("is not UTF-8 text"),
        "say which encoding the file has, for example `--encoding cp1252` or `--encoding gb18030`",
    ),
    (
        re.compile("the label is missing"),
        "if a usual text for that is a class here, name all classes, as in `--classes None,some`",
    ),
    (re.compile("text follows a closing quote"), "if backslashes stand before quotes within cells, `--quote '\\\"'`"),
    (re.compile("a quote is opened and not closed"), "if the quote encloses nothing, `--quote none`"),
    (
        re.compile("the row has [0-9]+ cells? and the file"),
        "if other characters separate or enclose cells, `--delimiter` or `--quote`; if the line is none, `--comment`",
    ),
    (re.compile("is infinite"), "if it stands for a missing value, `--missing-values inf,-inf`"),
    (re.compile("is above the [0-9]+ features"), "say how many there are with `--number-of-features`"),
    (re.compile("it has the index 0"), "if the file counts from 0, `--libsvm-base 0`"),
    (re.compile("outside the grid's range"), "fit a wider grid with `deltaplane grid refit`, or leave `[grid]` out"),
)


def cure_of(reason: str) -> str:
    """What to do about rows that were refused for this reason; empty if the file itself must be mended."""
    if found := _NOT_A_NUMBER.fullmatch(reason):
        return f"{cure_of_text(found['text'].strip(chr(39) + chr(34)))}leave it out with `{_ignore(found['name'])}`"
    if found := _NO_RULE_READS.fullmatch(reason):
        return _cure_of_cell(found["quoted"][1:-1], found["fault"], (found["cell"] or "").strip("'\""))
    if found := _MISSING.fullmatch(reason):
        return (
            "fill in the median with `--missing median` (in LIBSVM, the grid's offset with `--missing offset`), or"
            f" leave the column out with `{_ignore(found['name'])}`"
        )
    if found := _UNDECLARED.fullmatch(reason) or _LATE_KEY.fullmatch(reason):
        return f"leave it out with `{_ignore(found['name'])}`"
    return next((cure for pattern, cure in _CURES if pattern.search(reason)), "")


def _cure_of_cell(column: str, fault: str, text: str) -> str:
    """What to do about cells that the rule of their column cannot read."""
    if fault == "is no number":
        as_missing = f"if it stands for a missing value, `--missing-values {shlex.quote(text)}`; " if text else ""
        kind = f"if the column is a category, `--category {shlex.quote(column)}`; or "
        return f"{cure_of_text(text)}{as_missing}{kind}leave it out with `{_ignore(column)}`"
    return f"leave the column out with `{_ignore(column)}`"


def cure_of_text(text: str) -> str:
    """The flags that declare the form of a text, to put before other advice; empty if it is no number in any form."""
    if _NUMBER_WITH_COMMA.fullmatch(text) and _NUMBER_WITH_POINTS.fullmatch(text) and text.count(",") == 1:
        return "if its comma is the decimal sign, say `--decimal ,`; if it separates thousands, `--thousands ,`; or "
    if _NUMBER_WITH_COMMA.fullmatch(text):
        return "if commas separate thousands, say `--thousands ,`; or "
    if _NUMBER_WITH_POINTS.fullmatch(text):
        return "if its comma is the decimal sign, say `--decimal ,`, and `--thousands .` for points before it; or "
    return ""


def cure_of_texts(column: str, texts: Sequence[str]) -> str:
    """What to do about a column whose texts are all numbers in one form that was not declared; empty if they are not.

    ``texts``: the different ones. Whole numbers have that form, too, but at least one text must be no number as it is.
    """
    bare = [text.strip(_SIGNS_OF_UNITS) for text in texts]
    strange = [
        short for text, short in zip(texts, bare, strict=True) if isinstance(text, Word) or not _PLAIN.fullmatch(short)
    ]
    if not strange or not any(all(form.fullmatch(text) for text in bare) for form in _OTHER_FORMS):
        return ""
    if _PLAIN.fullmatch(strange[0]):
        cure = (
            "if its point is the decimal sign, leave `--decimal` out; if it separates thousands, `--thousands .`; or "
        )
    elif not (cure := cure_of_text(strange[0])):
        sign = next(sign for sign in strange[0] if not sign.isdigit() and sign not in "+-")
        cure = f"if {sign!r} separates thousands, say `--thousands {shlex.quote(sign)}`; or "
    return f"{cure}if it holds texts, `--category {shlex.quote(column)}`; or leave it out with `{_ignore(column)}`"


def _ignore(name: str) -> str:
    return f"--ignore {shlex.quote(name)}"
