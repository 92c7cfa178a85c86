"""``deltaplane source``: remove a whole source exactly, or admit it again."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from deltaplane.errors import DefinitionError, DeltaplaneError
from deltaplane.log.delta import Source, SourceOrder
from deltaplane.log.model import Model
from deltaplane_services.definition_file.settings import ServiceSettings
from deltaplane_services.kafka.clients import publisher
from deltaplane_services.operations.model_listing import first_model
from deltaplane_services.processors.codec import outgoing
from deltaplane_services.processors.messages import DELTAS, source_key

__all__ = ["MOST_LISTED", "NotInModel", "order_sources", "refuse_unheard_of", "sources_named"]

MOST_LISTED = 12


class NotInModel(DeltaplaneError):
    """An order was published, but no model showed it in time."""


def sources_named(text: str, partitions: int) -> list[Source]:
    """The sources that a text names: ``SITE/PARTITION`` is one source, ``SITE`` is all sources of a site.

    Raises :class:`DefinitionError` for any other text.
    """
    site, slash, partition = text.rpartition("/")
    if not slash:
        return [Source(text, number) for number in range(partitions)]
    if not site or not partition.isdecimal() or int(partition) >= partitions:
        raise DefinitionError(
            f"source: expected SITE or SITE/PARTITION with a partition below {partitions}, got {text!r}"
        )
    return [Source(site, int(partition))]


def refuse_unheard_of(sources: Sequence[Source], model: Model | None, named: str) -> None:
    """Raise :class:`DefinitionError` if the newest model knows none of these sources: the name is probably misspelt.

    An order for a future source can be useful, but it must be given knowingly.
    """
    known = {} if model is None else {str(position.source): position.source.site for position in model.positions}
    if known.keys() & {str(source) for source in sources}:
        return
    near = difflib.get_close_matches(named, [*known, *known.values()], n=1)
    there = ", ".join(list(known)[:MOST_LISTED]) or "none yet"
    raise DefinitionError(
        f"source {named!r}: nothing was ever heard of it; {f'did you mean {near[0]!r}? ' if near else ''}the newest"
        f" model knows {there}; if it is yet to come, and the order is to hold from its first row on, say --force"
    )


def order_sources(
    settings: ServiceSettings, sources: Sequence[Source], *, removed: bool, reason: str, wait_seconds: float
) -> Model:
    """The first model that shows the order to remove sources (``removed``) or to admit them again.

    Raises :class:`NotInModel` if none does within ``wait_seconds``, and :class:`DeliveryFailed`.
    """
    out = publisher(settings, "central")
    definition = settings.definition
    offsets = {}
    for source in sources:
        order = SourceOrder(source, removed, reason, definition.stream_fingerprint)
        partition = source.partition % definition.partitions
        offsets[source] = out.publish_and_wait(outgoing(DELTAS, partition, source_key(source), order))

    def shows_it(model: Model) -> bool:
        read_to = {position.source: position.read_to for position in model.positions}
        return all(read_to.get(source, 0) > offset for source, offset in offsets.items())

    if model := first_model(settings, shows_it, wait_seconds):
        return model
    raise NotInModel(
        f"the order is published, and no model showed it within {wait_seconds:g} s; is a merger running?"
        " It takes effect when one reads it"
    )
