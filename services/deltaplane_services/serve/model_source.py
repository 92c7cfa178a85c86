"""Where the model that answers comes from: a stream's models topic, or a file that was exported once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deltaplane.errors import DeltaplaneError
from deltaplane.log.exported_model import ExportedModel
from deltaplane.log.model import Model
from deltaplane.solve.solver import Plane
from deltaplane.stream.definition import StreamDefinition

__all__ = ["FileSource", "FollowedSource", "Follows", "ModelSource", "Served"]


@dataclass(frozen=True)
class Served:
    """A model that answers, its plane, and the digest that stands in every answer beside its version."""

    model: Model | ExportedModel
    plane: Plane
    digest: str

    @property
    def version(self) -> int:
        """The version of the model."""
        return self.model.version


class ModelSource(Protocol):
    """The newest model, whenever it is asked for. ``follows``: whether a newer one may come."""

    definition: StreamDefinition
    follows: bool

    def newest(self) -> Served | str:
        """The newest model with a plane, or why there is none."""

    def stale(self) -> str | None:
        """Why nobody renews the model; None as long as somebody does, or nobody should."""


class Follows(Protocol):
    """What follows a stream's models, as :class:`deltaplane_services.LiveModel` does."""

    @property
    def model(self) -> Model | None:
        """The newest model, if there is one. Raises what ended the following of it."""

    @property
    def stale(self) -> str | None:
        """Why nobody renews the model; None as long as its topic is followed."""


class FollowedSource:
    """The newest model of a stream, while another thread follows it."""

    follows = True

    def __init__(self, definition: StreamDefinition, live: Follows) -> None:
        self.definition = definition
        self._live = live
        self._served: Served | None = None

    def newest(self) -> Served | str:
        """The newest model with a plane, or why there is none."""
        try:
            model = self._live.model
        except DeltaplaneError as fault:
            return str(fault)
        if model is None:
            return f"stream {self.definition.name!r} has no model yet: {self._live.stale or 'is a merger running?'}"
        if model.plane is None:
            return f"model {model.version} has no plane yet: {model.refusal or 'it has learned too little'}"
        served = self._served
        if served is None or served.model is not model:
            # Plane, version and digest change together, however often models come.
            served = self._served = Served(model, model.plane, model.digest)
        return served

    def stale(self) -> str | None:
        """Why nobody renews the model."""
        return self._live.stale


class FileSource:
    """A model that was exported once, and stays."""

    follows = False

    def __init__(self, definition: StreamDefinition, exported: ExportedModel) -> None:
        self.definition = definition
        self._served = Served(exported, exported.plane, exported.digest)

    def newest(self) -> Served | str:
        """The model of the file."""
        return self._served

    def stale(self) -> str | None:
        """None: nobody should renew it."""
        return None
