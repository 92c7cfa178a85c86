"""What librdkafka is told: no secret is ever seen, and the clients are what exactness and memory need."""

from __future__ import annotations

import dataclasses
import logging
import string
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.stream.definition import StreamDefinition
from deltaplane_services.definition_file import kafka_properties
from deltaplane_services.definition_file.kafka_properties import (
    HIDDEN,
    PINNED,
    SHOWN,
    ClusterName,
    KafkaProperties,
    redacted,
)
from deltaplane_services.definition_file.settings import ServiceSettings
from services.settings_stream import CLUSTERS, resolve

# Secrets -------------------------------------------------------------------------------------------------------------

SECRETS = st.text(string.ascii_letters + string.digits + "+/=;,.-_ '\"\\{}%", min_size=10, max_size=30).map(
    lambda text: f"S3cr3t{text}"
)
"""What a password may look like, with everything that has a meaning somewhere in it."""

HIDDEN_NAMES = [
    "sasl.password",
    "sasl.username",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.something.invented.tomorrow",
]


@st.composite
def places(draw: st.DrawFn, secret: str) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """Flags, environment and tables that hold a secret in a property that is rightly written."""
    name = draw(st.sampled_from(HIDDEN_NAMES))
    scope = draw(st.sampled_from(["", "site", "central"]))
    dotted = f"{scope}.{name}".lstrip(".")
    variable = f"DELTAPLANE_KAFKA_{dotted.upper().replace('.', '_')}"
    listed = f"client.id=a;{dotted}={secret.replace(';', ';;')};client.rack=r"
    table = {"kafka": {scope: {name: secret}} if scope else {name: secret}}
    options: list[tuple[dict[str, Any], dict[str, str], dict[str, Any]]] = [
        ({"kafka": [f"{dotted}={secret}"]}, {}, {}),
        ({}, {variable: secret}, {}),
        ({}, {"DELTAPLANE_KAFKA_PROPERTIES": listed}, {}),
        ({}, {}, table),
    ]
    chosen: tuple[dict[str, Any], dict[str, str], dict[str, Any]] = draw(st.sampled_from(options))
    return chosen


def seen(*things: Any) -> str:
    """All the ways in which a thing may end up in a log."""
    return "".join(f"{thing} {thing!r} {thing:} {[thing]} {dataclass_fields(thing)}" for thing in things)


def dataclass_fields(thing: Any) -> str:
    return repr(dataclasses.asdict(thing)) if dataclasses.is_dataclass(thing) and not isinstance(thing, type) else ""


@given(data=st.data(), secret=SECRETS)
def test_no_secret_is_seen_when_settings_or_properties_are_printed(data: st.DataObject, secret: str) -> None:
    settings = resolve(*data.draw(places(secret)))
    made = [
        properties
        for cluster in CLUSTERS
        for properties in (
            settings.producer_properties(cluster),
            settings.consumer_properties(cluster, "group", "instance"),
            settings.admin_properties(cluster),
        )
    ]
    assert any(secret in properties.values() for properties in made), "the client must get it"
    shown = seen(settings, settings.site_cluster, settings.central_cluster, *made, *map(redacted, made))
    assert secret not in shown
    assert HIDDEN in shown


@given(data=st.data(), secret=SECRETS)
def test_no_secret_is_in_the_message_of_another_mistake(data: st.DataObject, secret: str) -> None:
    flags, environment, tables = data.draw(places(secret))
    mistake = data.draw(st.sampled_from(["acks=1", "message.max.bytes=5", "nonsense", "Sasl.Password=x"]))
    with pytest.raises(DefinitionError) as refusal:
        resolve({**flags, "kafka": [*flags.get("kafka", []), mistake]}, environment, tables)
    assert secret not in str(refusal.value)
    assert secret not in repr(refusal.value.__cause__)


@given(
    secret=SECRETS,
    form=st.sampled_from(
        ["{}", "{}=", "={}", "sasl.password:{}", "{}=sasl.password", "Sasl.Password={}", "site.{}", "x.Y={}"]
    ),
    place=st.sampled_from(["flag", "variable"]),
)
def test_a_secret_that_was_put_where_none_belongs_is_not_repeated(secret: str, form: str, place: str) -> None:
    text = form.format(secret)
    flags = {"kafka": [text]} if place == "flag" else {}
    environment = {"DELTAPLANE_KAFKA_PROPERTIES": text.replace(";", ";;")} if place == "variable" else {}
    try:
        shown = seen(resolve(flags, environment))
    except DefinitionError as refusal:
        shown = str(refusal)
    assert secret not in shown


@given(secret=SECRETS)
def test_a_secret_is_cut_out_of_what_the_client_says(secret: str) -> None:
    properties = KafkaProperties({"sasl.password": secret, "client.id": "a"})
    fault = KafkaException(f'Invalid value "{secret}" for configuration property "sasl.password"')
    message = str(kafka_properties.client_refused(fault, properties, "site"))
    assert secret not in message
    assert HIDDEN in message
    assert "sasl.password" in message


def test_a_message_is_withheld_where_a_secret_is_too_short_to_be_cut_out() -> None:
    assert "ab" not in kafka_properties.without_secrets("cabs", {"sasl.password": "ab"})
    assert kafka_properties.without_secrets("cabs", {"sasl.password": "xy"}) == "cabs"
    assert kafka_properties.without_secrets("cabs", {"sasl.password": ""}) == "cabs"


@pytest.mark.parametrize("name", HIDDEN_NAMES)
def test_only_what_is_known_to_be_harmless_is_shown(name: str) -> None:
    assert redacted({name: "x", "acks": "all"}) == {name: HIDDEN, "acks": "all"}


# What the clients get ------------------------------------------------------------------------------------------------


def clients(settings: ServiceSettings, **extra: Any) -> None:
    """Make one of each client: librdkafka reads every property, and nobody answers."""
    for cluster in CLUSTERS:
        for make, properties in (
            (Producer, settings.producer_properties(cluster)),
            (Consumer, settings.consumer_properties(cluster, "group", "instance")),
            (AdminClient, settings.admin_properties(cluster)),
        ):
            client = make({**properties, **extra})
            client.poll(0)
            if isinstance(client, Consumer):
                client.close()


@pytest.mark.parametrize("features", [1, 2, 300, limits.FEATURES])
@pytest.mark.parametrize("names", [[], ["down", "up"]])
def test_librdkafka_takes_the_properties_of_a_stream_of_any_size(features: int, names: list[str]) -> None:
    wide = {
        "features": {"names": [f"x{index}" for index in range(features)]},
        "grid": {"steps": [1.0] * features},
        "classes": {"names": names},
    }
    clients(resolve({"broker": "127.0.0.1:9"}, {}, wide))


def test_librdkafka_warns_of_nothing_whatever_was_passed_through(caplog: pytest.LogCaptureFixture) -> None:
    passed = [
        "linger.ms=3",
        "batch.size=100000",
        "message.timeout.ms=60000",
        "message.max.bytes=50000000",
        "fetch.min.bytes=2",
        "max.poll.interval.ms=400000",
        "heartbeat.interval.ms=1000",
        "socket.timeout.ms=10000",
        "statistics.interval.ms=1000",
        "sasl.mechanism=PLAIN",
        "security.protocol=SASL_PLAINTEXT",
        "sasl.username=u",
        "sasl.password=p",
    ]
    logger = logging.getLogger("librdkafka")
    with caplog.at_level(logging.DEBUG, logger.name):
        clients(resolve({"broker": "127.0.0.1:9", "kafka": passed}), logger=logger)
    assert [record.getMessage() for record in caplog.records if "CONFWARN" in record.getMessage()] == []


@pytest.mark.parametrize(
    "name", sorted((SHOWN | PINNED.keys() | kafka_properties.ALIASES.keys()) - {"default.topic.config"})
)
def test_every_property_that_is_named_here_is_one_of_librdkafkas(name: str) -> None:
    assert "No such configuration property" not in refusal_of(name)


def test_a_property_that_librdkafka_does_not_have_is_told_apart() -> None:
    assert "No such configuration property" in refusal_of("acks.all")


def refusal_of(name: str) -> str:
    """What the client says of a property with some value; nothing where it takes it."""
    try:
        Producer({name: "1", "log_level": 0})
    except (KafkaException, TypeError, ValueError) as fault:
        return str(fault)
    return ""


def test_a_producer_is_idempotent_waits_for_all_and_holds_a_bounded_queue() -> None:
    properties = resolve({"kafka": ["linger.ms=7"]}).producer_properties("central")
    assert properties["enable.idempotence"] is True
    assert properties["acks"] == "all"
    assert properties["compression.type"] in {"zstd", "lz4"}
    assert properties["linger.ms"] == "7"
    assert 1 <= properties["queue.buffering.max.kbytes"] <= 32 * 1024
    assert properties["message.max.bytes"] <= properties["queue.buffering.max.kbytes"] * 1024
    assert not {name for name in properties if name.startswith("group.")}


def test_a_consumer_commits_nothing_skips_nothing_and_holds_a_bounded_queue() -> None:
    properties = resolve({"session_timeout_milliseconds": 9000}).consumer_properties("site", "electricity.worker", "w1")
    assert properties["enable.auto.commit"] is False
    assert properties["auto.offset.reset"] == "error"
    assert properties["partition.assignment.strategy"] == "range"
    assert (properties["group.id"], properties["group.instance.id"]) == ("electricity.worker", "w1")
    assert (properties["session.timeout.ms"], properties["heartbeat.interval.ms"]) == (9000, 3000)
    assert properties["queued.max.messages.kbytes"] * 1024 == properties["fetch.max.bytes"] == 16 * 2**20
    assert properties["receive.message.max.bytes"] > properties["fetch.max.bytes"] + limits.MESSAGE_BYTES


def test_a_consumer_without_an_instance_is_a_member_that_comes_and_goes() -> None:
    assert "group.instance.id" not in resolve().consumer_properties("site", "group")


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_nothing_that_was_passed_through_can_undo_what_exactness_needs(cluster: ClusterName) -> None:
    settings = resolve({"kafka": ["debug=broker", "client.id=x"]})
    for properties in (settings.producer_properties(cluster), settings.consumer_properties(cluster, "g", "i")):
        for name, pin in PINNED.items():
            if name in properties and pin.allowed:
                assert str(properties[name]).lower() in pin.allowed


def test_each_client_of_a_cluster_goes_to_its_own_brokers() -> None:
    settings = resolve({"broker": "a:1", "central_broker": "b:2", "kafka": ["central.client.id=c"]})
    expected: list[tuple[ClusterName, str, str]] = [("site", "a:1", "deltaplane"), ("central", "b:2", "c")]
    for cluster, broker, client in expected:
        for properties in (
            settings.producer_properties(cluster),
            settings.consumer_properties(cluster, "g"),
            settings.admin_properties(cluster),
        ):
            assert (properties["bootstrap.servers"], properties["client.id"]) == (broker, client)


# Sizes ---------------------------------------------------------------------------------------------------------------


def too_large(features: int, classes: int) -> dict[str, Any]:
    return {
        "name": "wide",
        "features": {"names": [f"x{index}" for index in range(features)]},
        "grid": {"steps": [1.0] * features},
        "classes": {"names": [f"class {index}" for index in range(classes)]},
        "window": {"length": "all"},
        "solver": {"C": 1.0},
    }


@pytest.mark.parametrize(("features", "classes"), [(2000, 3), (500, 40), (60, 1024)])
def test_the_size_of_a_delta_is_what_the_definition_itself_reckons(
    monkeypatch: pytest.MonkeyPatch, features: int, classes: int
) -> None:
    tables = too_large(features, classes)
    with pytest.raises(DefinitionError) as refusal:
        StreamDefinition.from_tables(tables)
    with monkeypatch.context() as patched:
        patched.setattr(limits, "MESSAGE_BYTES", 2**62)
        size = kafka_properties.delta_bytes(StreamDefinition.from_tables(tables))
    assert f"= {size:,} bytes" in str(refusal.value)


def test_the_size_of_a_model_counts_where_there_are_more_candidates_than_moments() -> None:
    tables = too_large(3, 50) | {
        "window": {"length": [5, 50, "all"]},
        "solver": {"C": [0.01 * 2**k for k in range(16)]},
    }
    definition = StreamDefinition.from_tables(tables)
    size = definition.message_size
    assert size.model > size.delta
    assert kafka_properties.delta_bytes(definition) == size.model


def test_open_classes_are_given_all_the_room_there_is() -> None:
    definition = resolve({}, {}, {"classes": {}}).definition
    assert kafka_properties.delta_bytes(definition) == limits.MESSAGE_BYTES
    assert kafka_properties.statistics_record_bytes(definition) > limits.MESSAGE_BYTES
    binary = resolve({}, {}, {"classes": {"positive": "up"}}).definition
    assert kafka_properties.delta_bytes(binary) < 2**20
