"""Everything of Deltaplane that touches a file, a clock, a terminal or a broker; no mathematics.

What programs of others use is offered here, and loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltaplane.public_names import PublicNames

if TYPE_CHECKING:
    from deltaplane_services.client import LiveModel, NoPlane, NoProbabilities, SampleProducer
    from deltaplane_services.definition_file.settings import ServiceSettings, resolve_settings
    from deltaplane_services.query_client import NoAnswer, QueryClient
    from deltaplane_services.replay.in_python import Replayed

__all__ = [
    "LiveModel",
    "NoAnswer",
    "NoPlane",
    "NoProbabilities",
    "QueryClient",
    "Replayed",
    "SampleProducer",
    "ServiceSettings",
    "resolve_settings",
]

_MODULES = {
    "deltaplane_services.client": "LiveModel NoPlane NoProbabilities SampleProducer",
    "deltaplane_services.definition_file.settings": "ServiceSettings resolve_settings",
    "deltaplane_services.query_client": "NoAnswer QueryClient",
    "deltaplane_services.replay.in_python": "Replayed",
}

_NAMES = PublicNames(
    package=__name__,
    homes={name: module for module, names in _MODULES.items() for name in names.split()},
    extra="services",
)

# Hidden from type checkers: to them it would say that every name exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return _NAMES.find(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
