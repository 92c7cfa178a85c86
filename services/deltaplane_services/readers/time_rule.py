"""The rule by which one column of times is read, as declared, or as its first rows show it.

The same rule reads single cells and whole columns, of text and of Parquet, and gives the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from deltaplane.arrays import Int64s
from deltaplane_services.readers.cells import MISSING, clip, read_number
from deltaplane_services.readers.row_blocks import ReaderError, ReaderOptions
from deltaplane_services.readers.time_format import TimeFormat
from deltaplane_services.readers.time_text import TIME_MISSING, iso_times, read_iso
from deltaplane_services.readers.time_units import COMPACT, NoTime, TimeUnit, told_by_rows
from deltaplane_services.readers.time_zone import LocalZone

__all__ = ["FIRST_ROWS", "SECONDS_OR_ISO", "TimeRule", "declared_rule", "rule_of_rows"]

FIRST_ROWS = 1000
"""The number of first rows that are read to recognise the times of a file."""

_DATES = ("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%b %d %Y")
_ISO_DATE = "%Y-%m-%d"
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", ":%H:%M:%S")
_ZONES = ("", " %Z", " %z")


@dataclass(frozen=True)
class TimeRule:
    """The rule by which times are read.

    ``form`` is that of texts and numbers; if it is None, texts are ISO 8601 and numbers count a ``unit``. ``zone`` is
    that of local times; UTC if it is None. ``or_iso``: texts that are not of the form may be ISO 8601. ``decimal`` is
    the decimal sign of numbers.
    """

    unit: TimeUnit
    form: TimeFormat | None = None
    zone: LocalZone | None = None
    or_iso: bool = False
    decimal: str = "."

    def read(self, text: str) -> int:
        """The milliseconds since the epoch of a cell. Raises ValueError with the reason to refuse the row."""
        text = _with_point(text.strip(), self.decimal)
        if text in MISSING:
            raise ValueError(TIME_MISSING)
        if self.form is None:
            try:
                return self.unit.read(text)
            except NoTime:
                raise
            except ValueError:
                return read_iso(text, self.zone)
        try:
            return self.form.read(text)
        except ValueError:
            if self.or_iso:
                return read_iso(text, self.zone)
            # A column of numbers with gaps is often saved with a decimal point.
            if (digits := _digits(text)) is None or digits == text:
                raise
        return self.form.read(digits)

    def read_text(self, column: Any) -> Int64s | None:
        """The times int64[n] of an Arrow column of n strings, in milliseconds; None if they must be read one by one."""
        if self.form is not None:
            return self.form.read_each(column)
        times = self.unit.of_text(column)
        return iso_times(column, self.zone) if times is None else times

    def read_numbers(self, column: Any) -> Int64s | None:
        """The times int64[n] of an Arrow column of n numbers, in milliseconds; None if they must be read one by one."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if column.null_count:
            return None
        if not pa.types.is_integer(column.type):
            numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            return None if self.form is not None else self.unit.of_numbers(numbers)
        if self.form is not None:
            return self.form.read_each(pc.cast(column, pa.string()))
        try:
            return self.unit.of_whole_numbers(column.cast(pa.int64()).to_numpy())
        except pa.ArrowInvalid:
            return None


def _with_point(text: str, decimal: str) -> str:
    """A number that is written with this decimal sign as one with a point; any other text as it is."""
    whole, sign, fraction = text.partition(decimal)
    is_number = decimal != "." and sign and whole.lstrip("+-").isdecimal() and fraction.isdecimal()
    return f"{whole}.{fraction}" if is_number else text


def _digits(text: str) -> str | None:
    """The digits of a whole number, however it is written; None for anything else."""
    try:
        number = read_number(text)
    except ValueError:
        return None
    if math.isnan(number):
        raise ValueError(TIME_MISSING)
    return str(int(number)) if math.isfinite(number) and number == int(number) and abs(number) < 2**53 else None


SECONDS_OR_ISO = TimeRule(TimeUnit("s"))
"""The rule that numbers are seconds since the epoch, and texts ISO 8601 in UTC."""


def declared_rule(options: ReaderOptions, form: str | None = None) -> TimeRule | None:
    """The rule that the options declare, or the file itself by its ``form``; None if the first rows must show it.

    Raises ReaderError for a form or zone that cannot be used.
    """
    zone = None if options.time_zone is None else LocalZone(options.time_zone)
    if options.time_format is not None:
        return TimeRule(TimeUnit("s"), TimeFormat(options.time_format, zone), zone)
    if options.time_unit is not None:
        return TimeRule(TimeUnit(options.time_unit, zone), None, zone)
    return None if form is None else TimeRule(TimeUnit("s"), TimeFormat(form, zone), zone, or_iso=True)


def rule_of_rows(cells: Sequence[str], options: ReaderOptions, column: str, where: str) -> tuple[TimeRule, str]:
    """(the rule for times of which ``cells`` are the first, a note on it); the note is empty if they are ISO 8601.

    Raises ReaderError if the cells do not show what they are.
    """
    given = [_with_point(text, options.decimal) for text in map(str.strip, cells) if text not in MISSING]
    rule = declared_rule(options) or _recognised(given, options, column, where)
    rule = replace(rule, decimal=options.decimal)
    numbers = len(_numbers(given))
    if rule.form is None and not numbers:
        return rule, ""
    if options.time_zone is not None and rule.form is None and rule.unit.name != "days" and 2 * numbers > len(given):
        raise ReaderError(
            f"The times in the column `{column}` of {where} are {rule.unit.words}, which is UTC wherever they come "
            "from. Leave `--time-zone` out."
        )
    words = f"of the form {rule.form.form}" if rule.form is not None else rule.unit.words
    how = "as declared" if options.time_format or options.time_unit else "told by the first rows"
    local = rule.form is not None or rule.unit.name == "days"
    zone = f", local times of {options.time_zone}" if options.time_zone else ", taken for UTC" if local else ""
    return rule, f"the times in `{column}` are {words} ({how}){zone}{_first_time(given, rule)}"


def _first_time(given: Sequence[str], rule: TimeRule) -> str:
    for text in given:
        try:
            moment = datetime.fromtimestamp(rule.read(text) / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            continue
        return f"; the first is {clip(text, 40)}, {moment:%Y-%m-%d %H:%M:%S} UTC"
    return ""


def _numbers(given: Sequence[str]) -> list[float]:
    numbers = []
    for text in given:
        try:
            number = read_number(text)
        except ValueError:
            continue
        if math.isfinite(number):
            numbers.append(number)
    return numbers


def _recognised(given: Sequence[str], options: ReaderOptions, column: str, where: str) -> TimeRule:
    zone = None if options.time_zone is None else LocalZone(options.time_zone)
    plain = replace(SECONDS_OR_ISO, zone=zone)
    numbers = _numbers(given)
    if not numbers:
        _refuse_other_forms(given, plain, column, where)
        return plain
    if 2 * len(numbers) < len(given):
        return plain
    told = told_by_rows(numbers, column, where)
    if told in COMPACT:
        return TimeRule(TimeUnit("s"), TimeFormat(told, zone), zone)
    return TimeRule(TimeUnit(told, zone, told=told != "s"), None, zone)


def _refuse_other_forms(given: Sequence[str], plain: TimeRule, column: str, where: str) -> None:
    """Raise ReaderError, with the forms that fit, if the first rows have a form of time that must be declared."""
    if not given or any(_can_read(plain, text) for text in given):
        return
    dates = (*_DATES, _ISO_DATE)
    forms = [f"{date}{time}{zone}" for date in dates for time in _TIMES for zone in _ZONES]
    some = given[:20]
    fitting = [form for form in forms if all(_looks_like(form, text) for text in some)]
    if not fitting:
        return
    fitting = [form for form in fitting if all(_looks_like(form, text) for text in given)] or fitting
    zone = " --time-zone Europe/Berlin, or the zone that it is," if "%Z" in fitting[0] else ""
    choice = " or ".join(f"`--time-format {form!r}`" for form in fitting)
    raise ReaderError(
        f"The times in the column `{column}` of {where}, such as {clip(given[0], 40)!r}, are not in ISO 8601, and "
        f"a form is not guessed here. Declare it:{zone} {choice}."
    )


def _can_read(rule: TimeRule, text: str) -> bool:
    try:
        rule.read(text)
    except ValueError:
        return False
    return True


def _looks_like(form: str, text: str) -> bool:
    try:
        TimeFormat(form).read(text)
    except ValueError as fault:
        return "--time-zone" in str(fault)
    return True
