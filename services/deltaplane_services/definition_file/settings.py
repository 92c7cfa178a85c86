"""The settings of the services: where the brokers are, and the few knobs that somebody may have to turn at night.

Each comes from the first of these that has it: a flag, the environment, the tables ``[service]`` and ``[kafka]`` of
``deltaplane.toml``, the default. :func:`resolve_settings` is a pure function of the three; the command line reads the
environment once and hands it in.

    --broker HOST:PORT          DELTAPLANE_BROKER           [service] broker           cluster of samples, retirements
    --central-broker HOST:PORT  DELTAPLANE_CENTRAL_BROKER   [service] central_broker   cluster of deltas and models
    --site NAME                 DELTAPLANE_SITE             [service] site             the name of this site
    --refresh-seconds 0.5       DELTAPLANE_REFRESH_SECONDS  [service] refresh_seconds  and so for each of :class:`Knobs`

Properties of librdkafka go to all clients, or with ``site.`` or ``central.`` in front to those of one cluster:

    --kafka security.protocol=SSL            may be repeated; --kafka site.security.protocol=SSL
    DELTAPLANE_KAFKA_SECURITY_PROTOCOL=SSL   DELTAPLANE_KAFKA_SITE_SECURITY_PROTOCOL, ..._CENTRAL_...
    DELTAPLANE_KAFKA_PROPERTIES="a=b;c=d"    ;; is a semicolon within a value
    [kafka] "security.protocol" = "SSL"      [kafka.site], [kafka.central]

In the name of a variable an underscore stands for a dot. What cannot be written so is a property with an underscore in
its own name (log_level): use DELTAPLANE_KAFKA_PROPERTIES. A variable that is empty counts as not set. Any other one
that begins with DELTAPLANE_ may be somebody else's: it stops nothing, and is warned of, since it may be misspelt. Left
alone are DELTAPLANE_DEFINITION, DELTAPLANE_TEST_…, and what Kubernetes sets for a service named deltaplane.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltaplane.errors import DefinitionError
from deltaplane.stream.definition import NAME, StreamDefinition
from deltaplane_services.definition_file import kafka_properties as kafka
from deltaplane_services.definition_file.intake_table import IntakeDefinition, intake_of
from deltaplane_services.definition_file.kafka_properties import ClusterName, KafkaProperties, Membership
from deltaplane_services.definition_file.knobs import HOST_AND_PORT, Knobs, check_range

__all__ = [
    "PREFIX",
    "SERVICE_TABLES",
    "SETTING_NAMES",
    "Cluster",
    "ServiceSettings",
    "resolve_knob",
    "resolve_settings",
    "without_secrets_of",
]

PREFIX = "DELTAPLANE_"
SERVICE_TABLES = ("service", "kafka")
"""Tables of ``deltaplane.toml`` that are read here and are no part of the stream's definition."""

_IGNORED_VARIABLES = re.compile(
    r"DEFINITION|TEST_.*|(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)


@dataclass(frozen=True)
class Cluster:
    """A Kafka cluster: its bootstrap servers, and the properties of librdkafka that were given for it."""

    name: ClusterName
    broker: str
    properties: KafkaProperties = field(default_factory=KafkaProperties)


@dataclass(frozen=True)
class ServiceSettings:
    """All that a service needs to know. Printing it shows no secret."""

    definition: StreamDefinition
    site: str
    site_cluster: Cluster
    central_cluster: Cluster
    knobs: Knobs = field(default_factory=Knobs)
    intake: IntakeDefinition | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What was passed over: variables that look like settings and are none."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.site):
            raise DefinitionError(f"site: expected letters, digits, - and _, got {self.site[:100]!r}")

    @property
    def one_cluster(self) -> bool:
        """Whether one cluster holds all topics."""
        return _servers(self.site_cluster.broker) == _servers(self.central_cluster.broker)

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The clusters there are: the site's and the central one, or the one that is both and is reached in one way."""
        same = self.one_cluster and self.site_cluster.properties == self.central_cluster.properties
        return (self.site_cluster,) if same else (self.site_cluster, self.central_cluster)

    def cluster(self, name: ClusterName) -> Cluster:
        """The cluster of that name."""
        return self.site_cluster if name == "site" else self.central_cluster

    def producer_properties(self, cluster: ClusterName) -> KafkaProperties:
        """All of a ``confluent_kafka.Producer`` but its callbacks; see :func:`kafka_properties.producer`."""
        at = self.cluster(cluster)
        return kafka.producer(at.broker, at.properties, self.definition, cluster)

    def consumer_properties(self, cluster: ClusterName, group: str, instance: str = "") -> KafkaProperties:
        """All of a ``confluent_kafka.Consumer`` but its callbacks; see :func:`kafka_properties.consumer`.

        ``instance`` makes the membership static; leave it empty for consumers that assign partitions themselves.
        """
        at = self.cluster(cluster)
        membership = Membership(group, self.knobs.session_timeout_milliseconds, instance)
        return kafka.consumer(at.broker, at.properties, self.definition, membership)

    def admin_properties(self, cluster: ClusterName) -> KafkaProperties:
        """All of a ``confluent_kafka.admin.AdminClient`` but its callbacks."""
        at = self.cluster(cluster)
        return kafka.admin(at.broker, at.properties)


def resolve_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str], tables: Mapping[str, Any], hostname: str = ""
) -> ServiceSettings:
    """The settings, each from the first of flags, environment and tables that has it. Raises :class:`DefinitionError`.

    ``flags``: setting name → value (None is not given); ``kafka`` is a list of ``KEY=VALUE``. ``tables``: a parsed
    ``deltaplane.toml`` with the whole definition. ``hostname``: what ``{hostname}`` in ``instance`` stands for.
    """
    definition = StreamDefinition.from_tables(tables)
    in_tables, (in_environment, strange) = _in_tables(tables), _in_environment(environment)
    layers = (in_tables, in_environment, _in_flags(flags))

    def said(name: str, default: str) -> tuple[Any, str]:
        return _first_said(name, flags.get(name), environment, tables) or (default, name)

    broker = _broker(*said("broker", "127.0.0.1:9092"))
    central = _broker(*said("central_broker", broker))
    knobs = {name: resolve_knob(name, flags.get(name), environment, tables) for name in _KNOBS}
    knobs["instance"] = knobs["instance"].replace("{hostname}", hostname)
    return ServiceSettings(
        definition=definition,
        site=str(said("site", "local")[0]),
        site_cluster=Cluster("site", broker, _properties_of("site", layers, definition)),
        central_cluster=Cluster("central", central, _properties_of("central", layers, definition)),
        knobs=Knobs(**knobs),
        intake=intake_of(tables, definition),
        warnings=tuple(strange),
    )


def resolve_knob(name: str, flag: Any, environment: Mapping[str, str], tables: Mapping[str, Any]) -> Any:
    """One of :class:`Knobs`, from the first of flag, environment and tables that has it; what else they say is ignored.

    Raises :class:`DefinitionError` for a value that it cannot have.
    """
    said = _first_said(name, flag, environment, tables)
    return _KNOBS[name].default if said is None else _knob_value(name, *said)


def without_secrets_of(tables: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The tables of a definition file without properties that may be secrets, and the names of these."""
    hidden: list[str] = []

    def shown(table: Mapping[str, Any], before: str) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, value in table.items():
            name = f"{before}{key}"
            if isinstance(value, Mapping):
                if inner := shown(value, f"{name}."):
                    kept[key] = inner
            elif kafka.may_be_shown(name):
                kept[key] = value
            else:
                hidden.append(f"kafka.{name}")
        return kept

    given = tables.get("kafka")
    public = {key: value for key, value in tables.items() if key != "kafka"}
    return (public | {"kafka": shown(given, "")} if isinstance(given, Mapping) else public), hidden


# Where settings come from --------------------------------------------------------------------------------------------

_KNOBS = {knob.name: knob for knob in dataclasses.fields(Knobs)}
SETTING_NAMES = ("broker", "central_broker", "site", *_KNOBS)
"""Every setting but the properties of librdkafka, in the spelling of ``[service]``."""


_Properties = dict[tuple[str, str], tuple[str, str]]
"""The properties that one place gives: by scope (empty, site or central) and name, the value and where it stands."""


def _first_said(
    name: str, flag: Any, environment: Mapping[str, str], tables: Mapping[str, Any]
) -> tuple[Any, str] | None:
    """What is said of a setting, and where, by the first of flag, environment and tables that says anything."""
    variable = f"{PREFIX}{name.upper()}"
    for value, where in (
        (flag, f"--{name.replace('_', '-')}"),
        (environment.get(variable) or None, variable),
        (_table(tables.get("service", {}), "service").get(name), f"service.{name}"),
    ):
        if value is not None:
            return value, where
    return None


def _in_flags(flags: Mapping[str, Any]) -> _Properties:
    """The properties that flags give. Raises :class:`DefinitionError` for a flag that is no setting."""
    given: _Properties = {}
    for name in flags:
        if name != "kafka" and flags[name] is not None:
            _check_known(name, f"--{name.replace('_', '-')}")
    for number, item in enumerate(flags.get("kafka") or (), start=1):
        _put(given, item, f"--kafka, number {number}")
    return given


def _in_environment(environment: Mapping[str, str]) -> tuple[_Properties, list[str]]:
    """(the properties that variables give, what to say of those that look like settings and are none)."""
    given: _Properties = {}
    strange = []
    ours = {name: value for name, value in environment.items() if name.startswith(PREFIX) and value}
    # The list of properties first: a variable for a single property says it more plainly.
    for name in sorted(ours, key=lambda name: (name != f"{PREFIX}KAFKA_PROPERTIES", name)):
        rest = name.removeprefix(PREFIX)
        of_kafka = rest.removeprefix("KAFKA_").lower().replace("_", ".")
        if rest == "KAFKA_PROPERTIES":
            for number, item in enumerate(_split(ours[name]), start=1):
                _put(given, item, f"{name}, property {number}")
        elif rest.startswith("KAFKA_") and kafka.may_be_property(of_kafka) and not _IGNORED_VARIABLES.fullmatch(rest):
            _put_property(given, of_kafka, ours[name], name)
        elif rest.lower() not in SETTING_NAMES and not _IGNORED_VARIABLES.fullmatch(rest):
            strange.append(_no_setting(name))
    return given, strange


def _no_setting(variable: str) -> str:
    """What to say of a variable of somebody else's, or a misspelt one: nothing is stopped for it."""
    known = [*map(str.upper, SETTING_NAMES), "KAFKA_PROPERTIES", "DEFINITION"]
    close = difflib.get_close_matches(variable.removeprefix(PREFIX), known, n=1)
    others = ", ".join(f"{PREFIX}{name}" for name in known)
    hint = f"if {PREFIX}{close[0]} is meant, set that" if close else f"known are {others} and {PREFIX}KAFKA_…"
    return f"{variable}: there is no such setting, and it is passed over; {hint}"


def _in_tables(tables: Mapping[str, Any]) -> _Properties:
    """The properties of ``[kafka]``. Raises :class:`DefinitionError` for a key of ``[service]`` that is no setting."""
    given: _Properties = {}
    for name in _table(tables.get("service", {}), "service"):
        _check_known(name, f"service.{name}")
    for name, value in _flat(_table(tables.get("kafka", {}), "kafka")):
        where = f"kafka.{name}"
        if not isinstance(value, str | int | float):
            raise DefinitionError(f"{where}: expected a text, a number, true or false, got a {type(value).__name__}")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        _put_property(given, name, text, where)
    return given


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{where}: expected a table [{where}], got a {type(value).__name__}")
    return value


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The table's keys with dots: ``security.protocol = "SSL"`` means the same in quotes and without."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _split(text: str) -> list[str]:
    """The parts between single semicolons; two of them are one semicolon of a part."""
    parts = [""]
    for number, stretch in enumerate(text.split(";;")):
        first, *others = stretch.split(";")
        parts[-1] += f";{first}" if number else first
        parts += others
    return [part for part in parts if part.strip()]


def _put(given: _Properties, item: str, where: str) -> None:
    """Take one ``KEY=VALUE``. Neither side of a text that is not one is repeated: it may be a secret."""
    name, equals, value = item.partition("=")
    if not equals:
        raise DefinitionError(f"{where}: expected KEY=VALUE, got {len(item)} characters without a =")
    _put_property(given, name, value, where)


def _put_property(given: _Properties, name: str, value: str, where: str) -> None:
    scope, _, rest = name.strip().partition(".")
    if scope not in ("site", "central"):
        scope, rest = "", name
    canonical = kafka.property_name(rest, where)
    kafka.check_property(canonical, value, where)
    given[scope, canonical] = (value, where)


def _check_known(name: str, where: str) -> None:
    if name in SETTING_NAMES:
        return
    close = difflib.get_close_matches(name, SETTING_NAMES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(SETTING_NAMES)}"
    raise DefinitionError(f"{where}: there is no such setting; {hint}")


# What they must be ---------------------------------------------------------------------------------------------------


def _knob_value(name: str, value: Any, where: str) -> Any:
    """The value as the knob's type, whether it was written as that or as a text."""
    knob = _KNOBS[name]
    kind: type = type(knob.default)
    wanted = {int: "a whole number", float: "a number", str: "a text"}[kind]
    if (
        isinstance(value, bool)
        or (kind is str and not isinstance(value, str))
        or not isinstance(value, int | float | str)
    ):
        raise DefinitionError(f"{where}: expected {wanted}, got {value!r}")
    if kind is int and isinstance(value, float):
        raise DefinitionError(f"{where}: expected {wanted}, got {value!r}")
    try:
        converted = kind(value)
    except (ValueError, OverflowError):
        raise DefinitionError(f"{where}: expected {wanted}, got {str(value)[:50]!r}") from None
    check_range(knob, converted, where)
    return converted


def _broker(value: Any, where: str) -> str:
    """Bootstrap servers: ``HOST:PORT``, several with commas between."""
    servers = [server.strip() for server in str(value).split(",")]
    for server in servers:
        match = HOST_AND_PORT.fullmatch(server)
        if match is None or not 0 < int(match[2]) < 65_536:
            shown = (
                "a text with an @ in it (credentials belong into the properties sasl.…)"
                if "@" in server
                else repr(server[:100])
            )
            raise DefinitionError(f"{where}: expected HOST:PORT, or several with commas between, got {shown}")
    return ",".join(servers)


def _servers(broker: str) -> frozenset[str]:
    return frozenset(broker.split(","))


def _properties_of(
    cluster: ClusterName, layers: Iterable[_Properties], definition: StreamDefinition
) -> KafkaProperties:
    """The properties of one cluster: a later place beats an earlier, and in one place the cluster's own beat all's."""
    found: dict[str, tuple[str, str]] = {}
    for layer in layers:
        for wanted in ("", cluster):
            found |= {name: value for (scope, name), value in layer.items() if scope == wanted}
    for name, least in kafka.floors(definition).items():
        if name in found and not (re.fullmatch("[0-9]{1,18}", found[name][0].strip()) and int(found[name][0]) >= least):
            raise DefinitionError(
                f"{found[name][1]}: {name} must be at least {least}, which the largest record of stream"
                f" {definition.name!r} needs, got {found[name][0][:50]!r}"
            )
    return KafkaProperties({name: value for name, (value, _) in found.items()})
