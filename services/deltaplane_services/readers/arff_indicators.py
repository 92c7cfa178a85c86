"""Nominal attributes of an ARFF file as features: one for each declared value, named ``colour=red``, that is 1 or 0.

The order in which values are declared means nothing, so that a plane must be able to weigh each value by itself. If
missing values are kept, all features of a missing one are 0, so that it differs from every value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deltaplane import limits
from deltaplane_services.readers.arff_header import Attribute
from deltaplane_services.readers.bounds import rows_of_a_block
from deltaplane_services.readers.layout import Layout, ignoring, refuse_duplicates
from deltaplane_services.readers.row_blocks import ReaderError, RefusedRow, RowBlock

__all__ = ["Indicators", "MadeFeatures"]


@dataclass(frozen=True)
class MadeFeatures:
    """d features made from e attributes.

    For each feature: its name, the column of the attribute that it is made from, and the place of the value that it
    stands for; -1 for a number that is taken as it is.
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    places: tuple[int, ...]

    def blocks(self, blocks: Iterable[RowBlock]) -> Iterator[RowBlock]:
        """Blocks with features float64[n, d], made from blocks of values float64[n, e]; large blocks are cut."""
        most = rows_of_a_block(len(self.names))
        for block in blocks:
            if all(place < 0 for place in self.places) and self.columns == tuple(range(block.features.shape[1])):
                yield block
                continue
            refused_from = 0
            for start in range(0, max(1, len(block)), most):
                stop = min(start + most, len(block))
                # Refused rows stay with the rows before them.
                last = stop == len(block)
                line = 0 if last else int(block.line_numbers[stop])
                refused_to = len(block.refused) if last else bisect_left(block.refused, line, key=_line_number)
                yield self._made(block.cut(start, stop, block.refused[refused_from:refused_to]))
                refused_from = refused_to

    def _made(self, block: RowBlock) -> RowBlock:
        places = np.array(self.places)
        features = block.features[:, self.columns]
        made = places >= 0
        # A missing value is NaN, which equals no place.
        features[:, made] = features[:, made] == places[made]
        return replace(block, features=np.ascontiguousarray(features))


def _line_number(refused: RefusedRow) -> int:
    return refused.line_number


class Indicators:
    """The features that can be made from the attributes of a file, by name.

    ``by_place``: a nominal attribute is one feature, the place of the value in its declaration, as in early versions.
    """

    def __init__(self, attributes: Sequence[Attribute], *, by_place: bool) -> None:
        self._attributes = attributes
        self._by_place = by_place
        self._of_name: dict[str, tuple[int, int]] = {}
        for position, attribute in enumerate(attributes):
            for place, value in enumerate(() if by_place else attribute.values or ()):
                self._of_name.setdefault(f"{attribute.name}={value}", (position, place))
        # If an attribute's own name is also the name of another attribute's value, it means the attribute.
        self._of_name |= {attribute.name: (position, -1) for position, attribute in enumerate(attributes)}

    def attributes_of(self, wanted: Sequence[str], where: str) -> tuple[str, ...]:
        """The attributes from which the wanted features are made.

        Raises ReaderError for the name of a nominal attribute itself, unless features are ``by_place``.
        """
        names: dict[str, None] = {}
        for name in wanted:
            position, place = self._of_name.get(name, (None, -1))
            if position is None:
                names[name] = None
                continue
            attribute = self._attributes[position]
            if place < 0 and attribute.values is not None and not self._by_place:
                each = ", ".join(f"`{name}={value}`" for value in attribute.values[:4])
                raise ReaderError(
                    f"The feature `{name}` of {where} is nominal, and has a feature for each of its values: {each}"
                    f"{', …' if len(attribute.values) > 4 else ''}. Name these under `features.names`. A stream that "
                    f'was made when nominal features were numbers goes on with the line `nominal = "place"` under '
                    "`[input]` of its definition."
                )
            names[attribute.name] = None
        return tuple(names)

    def chosen(self, layout: Layout, wanted: Sequence[str] | None, where: str) -> MadeFeatures:
        """The features of a layout: those ``wanted``, in that order, or all if it is None.

        Raises ReaderError if there are too many, or two have the same name.
        """
        column_of = {position: column for column, position in enumerate(layout.features)}
        if wanted is not None:
            found = [(name, *self._of_name[name]) for name in wanted]
        else:
            found = []
            for position in layout.features:
                attribute = self._attributes[position]
                if attribute.values is None or self._by_place:
                    found.append((attribute.name, position, -1))
                else:
                    each = enumerate(attribute.values)
                    found += [(f"{attribute.name}={value}", position, place) for place, value in each]
        names = [name for name, _, _ in found]
        refuse_duplicates(names, where)
        if len(found) > limits.FEATURES:
            largest = max(layout.features, key=lambda position: len(self._attributes[position].values or ()))
            raise ReaderError(
                f"{where} has {len(found)} features, with one for each value of a nominal attribute, and a stream may "
                f"have {limits.FEATURES}. Leave some out: `{ignoring([self._attributes[largest].name])}` has most."
            )
        columns = tuple(column_of[position] for _, position, _ in found)
        return MadeFeatures(tuple(names), columns, tuple(place for _, _, place in found))
