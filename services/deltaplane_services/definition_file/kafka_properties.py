"""What librdkafka is told: which of its properties may be set, which may be shown, and what every client of ours gets.

Any property of librdkafka can be passed through (TLS, SASL, time-outs, buffers). Three things are not left to chance:

1. **Exactness.** The rule by which deltas are accepted needs an ordered log without repeats, positions that are set by
   us alone, and two inputs that stay together. A property that would take one of these away is refused with the reason.
2. **Secrets.** Only the values of properties known to be harmless are ever shown: :data:`SHOWN` is a list of what may
   be seen, not of what must be hidden, so a property invented tomorrow is hidden. :class:`KafkaProperties` prints
   itself so.
3. **Memory.** Buffers have bounds, and those follow from the largest message that the definition allows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deltaplane import limits
from deltaplane.errors import DefinitionError
from deltaplane.stream.definition import StreamDefinition

__all__ = [
    "ALIASES",
    "CONSUMER_ONLY",
    "FETCH_BYTES",
    "HIDDEN",
    "INPUT_BYTES",
    "KILOBYTE",
    "LINGER_MILLISECONDS",
    "MEGABYTE",
    "PINNED",
    "PRODUCER_ONLY",
    "PRODUCER_QUEUE_BYTES",
    "SHOWN",
    "ClusterName",
    "KafkaProperties",
    "Membership",
    "Pin",
    "admin",
    "check_property",
    "client_refused",
    "compression",
    "consumer",
    "delta_bytes",
    "floors",
    "largest_record_bytes",
    "may_be_property",
    "may_be_shown",
    "producer",
    "property_name",
    "redacted",
    "statistics_record_bytes",
    "without_secrets",
]

ClusterName = Literal["site", "central"]

HIDDEN = "(hidden)"

ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "delivery.timeout.ms": "message.timeout.ms",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "sasl.mechanism": "sasl.mechanisms",
    "auto.commit.enable": "enable.auto.commit",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""Second names of properties, and the one that is used here: no rule is escaped by another spelling."""


def _names(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


PRODUCER_ONLY = _names(
    "acks batch.num.messages batch.size compression.level compression.type delivery.report.only.error",
    "enable.gapless.guarantee enable.idempotence linger.ms message.max.bytes message.timeout.ms partitioner",
    "produce.offset.report queue.buffering.backpressure.threshold queue.buffering.max.kbytes",
    "queue.buffering.max.messages queuing.strategy request.timeout.ms retries sticky.partitioning.linger.ms",
    "transaction.timeout.ms transactional.id",
)
CONSUMER_ONLY = _names(
    "auto.commit.interval.ms auto.offset.reset check.crcs client.rack consume.callback.max.messages",
    "coordinator.query.interval.ms enable.auto.commit enable.auto.offset.store enable.partition.eof",
    "fetch.error.backoff.ms fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms",
    "fetch.wait.max.ms group.id group.instance.id group.protocol group.protocol.type group.remote.assignor",
    "heartbeat.interval.ms isolation.level max.poll.interval.ms max.poll.records offset.store.method",
    "offset.store.path offset.store.sync.interval.ms partition.assignment.strategy queued.max.messages.kbytes",
    "queued.min.messages session.timeout.ms share.acknowledgement.mode",
)
"""Properties of one kind of client. Given to the other kind they would only be warned of, in every log."""

SHOWN = PRODUCER_ONLY | CONSUMER_ONLY
SHOWN |= _names(
    "allow.auto.create.topics bootstrap.servers broker.address.family broker.address.ttl client.dns.lookup",
    "client.id connections.max.idle.ms debug enable.metrics.push enable.ssl.certificate.verification",
    "https.ca.location log.connection.close log_level max.in.flight message.copy.max.bytes metadata.max.age.ms",
    "metadata.recovery.strategy receive.message.max.bytes reconnect.backoff.max.ms reconnect.backoff.ms",
    "retry.backoff.max.ms retry.backoff.ms sasl.kerberos.service.name sasl.mechanisms",
    "sasl.oauthbearer.grant.type sasl.oauthbearer.method security.protocol socket.connection.setup.timeout.ms",
    "socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes",
    "socket.send.buffer.bytes socket.timeout.ms ssl.ca.location ssl.certificate.location ssl.crl.location",
    "ssl.endpoint.identification.algorithm ssl.key.location ssl.keystore.location statistics.interval.ms",
    "test.mock.num.brokers topic.metadata.refresh.interval.ms",
)
"""Properties whose values may be printed. All others are hidden, known to us or not."""

_TRUE, _FALSE = frozenset({"true", "t", "1"}), frozenset({"false", "f", "0"})
_NEVER: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Pin:
    """A property that exactness depends on: the values it may have (none at all if empty), and why."""

    allowed: frozenset[str]
    reason: str


PINNED: Mapping[str, Pin] = {
    "bootstrap.servers": Pin(_NEVER, "brokers are named by --broker and --central-broker (broker, central_broker)"),
    "enable.idempotence": Pin(_TRUE, "without it a retry may write a delta twice or out of order"),
    "acks": Pin(frozenset({"all", "-1"}), "a delta that one broker alone has seen can be lost after it was counted on"),
    "max.in.flight": Pin(frozenset("12345"), "more than 5 requests in flight lose their order on a retry"),
    "queuing.strategy": Pin(frozenset({"fifo"}), "deltas must be written in the order in which they were made"),
    "transactional.id": Pin(_NEVER, "exactness comes from the order of the log, not from transactions"),
    "delivery.report.only.error": Pin(_FALSE, "what was acknowledged is learned from the reports of success"),
    "partitioner": Pin(
        frozenset({"consistent", "consistent_random"}), "a sample and its retirement must fall into the same partition"
    ),
    "enable.auto.commit": Pin(_FALSE, "positions are in the deltas; an offset committed on its own skips records"),
    "enable.auto.offset.store": Pin(_FALSE, "positions are in the deltas; an offset stored on its own skips records"),
    "auto.offset.reset": Pin(frozenset({"error"}), "an offset that is gone must be said, not skipped over"),
    "isolation.level": Pin(frozenset({"read_committed"}), "samples of a transaction that was aborted were never sent"),
    "enable.partition.eof": Pin(_FALSE, "the services ask for the ends of partitions themselves, when they need them"),
    "group.id": Pin(_NEVER, "groups are named after the stream, so that the members of one find each other"),
    "group.instance.id": Pin(_NEVER, "it is a setting of its own: instance"),
    "group.protocol": Pin(
        frozenset({"classic"}), "under the newer protocol a killed member's place stays taken for 45 s"
    ),
    "group.remote.assignor": Pin(_NEVER, "it belongs to the newer group protocol, which is not used"),
    "partition.assignment.strategy": Pin(
        frozenset({"range"}), "others part the retirements of a partition from its samples"
    ),
    "session.timeout.ms": Pin(_NEVER, "it is a setting of its own: session_timeout_milliseconds"),
    "allow.auto.create.topics": Pin(
        _FALSE, "a topic that the broker makes has neither the partitions nor the settings"
    ),
    "default.topic.config": Pin(_NEVER, "name the topic's properties themselves"),
}
"""Properties that cannot be set freely."""

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
_NAMES_WITHOUT_DOT = frozenset({"acks", "retries", "partitioner", "debug", "log_level"})

KILOBYTE, MEGABYTE = 2**10, 2**20
INPUT_BYTES = 8 * MEGABYTE
"""Bytes of one record on an input topic (samples, retirements, queries), before and after compression.
Some managed clusters allow no more, and 8 MB are 18,000 rows of 54 features."""
FETCH_BYTES = 16 * MEGABYTE
"""Bytes that a consumer asks for at once, and that it holds unread. Measured: 720,000 records of 450 bytes a second,
as with four times as much."""
LINGER_MILLISECONDS = 5
"""How long a sample waits for company before it is sent; a flush does not wait."""

PRODUCER_QUEUE_BYTES = 32 * MEGABYTE
"""Bytes that a producer holds unsent; more if two of the largest messages need more."""

assert INPUT_BYTES <= limits.MESSAGE_BYTES, "an input record is a message"


class KafkaProperties(dict[str, Any]):
    """Properties of librdkafka that print without their secrets. Not to be changed once made."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({redacted(self)!r})"

    __str__ = __repr__


def redacted(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties, sorted by name, with the value of everything that is not in :data:`SHOWN` hidden."""
    return {name: properties[name] if name in SHOWN else HIDDEN for name in sorted(properties)}


def may_be_shown(name: str) -> bool:
    """Whether the value of a property, of one cluster or of both, is known to be no secret."""
    scope, _, rest = name.partition(".")
    of_all = rest if scope in ("site", "central") else name
    return ALIASES.get(of_all, of_all) in SHOWN


def may_be_property(name: str) -> bool:
    """Whether a text is written as names of librdkafka's properties are."""
    return _NAME.fullmatch(name) is not None or name in _NAMES_WITHOUT_DOT


def property_name(text: str, where: str) -> str:
    """The one name of the property that ``text`` names. Raises :class:`DefinitionError`.

    A text that cannot be a name is not repeated in the message: it may be a piece of a secret.
    """
    name = text.strip()
    if not may_be_property(name):
        raise DefinitionError(
            f"{where}: expected the name of a librdkafka property (security.protocol, acks, ...), got a text of"
            f" {len(text)} characters that is none; it is not shown, since it may be part of a secret"
        )
    return ALIASES.get(name, name)


def check_property(name: str, value: str, where: str) -> None:
    """Refuse a value that would break exactness, by name and with the reason."""
    pin = PINNED.get(name)
    if pin is None or value.strip().lower() in pin.allowed:
        return
    if not pin.allowed:
        raise DefinitionError(f"{where}: {name} cannot be set: {pin.reason}")
    shown = repr(value[:50]) if name in SHOWN else "another value"
    raise DefinitionError(f"{where}: {name} must be {' or '.join(sorted(pin.allowed))}, got {shown}: {pin.reason}")


def without_secrets(text: str, properties: Mapping[str, Any]) -> str:
    """A text with every hidden value cut out of it; nothing of it if a value is too short to be found safely."""
    secrets = [str(value) for name, value in properties.items() if name not in SHOWN and str(value)]
    for secret in sorted(secrets, key=len, reverse=True):
        if secret in text:
            if len(secret) < 4:
                return "(the message holds a secret and is not shown)"
            text = text.replace(secret, HIDDEN)
    return text


def client_refused(fault: Exception, properties: Mapping[str, Any], cluster: str) -> DefinitionError:
    """What to raise when librdkafka will not make a client of these properties; the message holds no secret."""
    return DefinitionError(
        f"kafka: librdkafka refuses the properties of the {cluster} cluster: {without_secrets(str(fault), properties)};"
        f" given were {', '.join(sorted(properties))}"
    )


def delta_bytes(definition: StreamDefinition) -> int:
    """Bytes that a delta, checkpoint or model of this stream may take before compression, by the definition's formula.

    Where classes are open nobody knows how many will come: then it is all that a message may have.
    """
    if not definition.classes.names and definition.classes.positive is None:
        return limits.MESSAGE_BYTES
    return max(definition.message_size.delta, definition.message_size.model)


def statistics_record_bytes(definition: StreamDefinition) -> int:
    """Bytes of the largest record that carries statistics or a model: whole megabytes, with one to spare.

    What is spared covers the key, the framing, and in a model the positions of its sources.
    """
    return (-(-delta_bytes(definition) // MEGABYTE) + 1) * MEGABYTE


def largest_record_bytes(definition: StreamDefinition) -> int:
    """Bytes of the largest record that any topic of the stream admits."""
    return max(INPUT_BYTES, statistics_record_bytes(definition))


def floors(definition: StreamDefinition) -> dict[str, int]:
    """Properties that must not be set below what the largest record needs, and that least value."""
    largest = largest_record_bytes(definition)
    return {
        "message.max.bytes": largest,
        "queue.buffering.max.kbytes": largest // KILOBYTE,
        # A reader must get past any record that a topic may hold, or it stands still for ever.
        "receive.message.max.bytes": FETCH_BYTES + limits.MESSAGE_BYTES + 2 * MEGABYTE,
    }


def producer(
    broker: str, given: Mapping[str, str], definition: StreamDefinition, cluster: ClusterName = "central"
) -> KafkaProperties:
    """An idempotent producer: acknowledged by all replicas, compressed, with a bounded queue.

    Samples are packed as their topic wants it, by :func:`compression`: the broker then looks at a batch and leaves it
    as it is. Measured with 54 features and one broker: 0.25 s of its processor for 200,000 rows, as without a codec of
    the topic; 0.60 s if it has to pack lz4 anew. lz4 would be quicker for the producer, by a fifth.
    """
    largest = largest_record_bytes(definition)
    ours = {
        "enable.idempotence": True,
        "acks": "all",
        "partitioner": "consistent",
        "compression.type": compression(),
        "linger.ms": LINGER_MILLISECONDS if cluster == "site" else 0,
        "message.max.bytes": largest,
        "queue.buffering.max.kbytes": max(PRODUCER_QUEUE_BYTES, 2 * largest) // KILOBYTE,
    }
    return _laid_over(broker, ours, given, leave_out=CONSUMER_ONLY)


def consumer(
    broker: str, given: Mapping[str, str], definition: StreamDefinition, membership: Membership
) -> KafkaProperties:
    """A consumer that commits nothing by itself, skips nothing silently, and holds a bounded number of bytes.

    With the classic protocol and the range strategy the same partitions of two topics go to the same member, and with
    an instance id a member that comes back within its session keeps them.
    """
    session = membership.session_timeout_milliseconds
    ours: dict[str, Any] = {
        "group.id": membership.group,
        "group.protocol": "classic",
        "partition.assignment.strategy": "range",
        "session.timeout.ms": session,
        "heartbeat.interval.ms": max(1, session // 3),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "check.crcs": True,
        "fetch.max.bytes": FETCH_BYTES,
        "queued.max.messages.kbytes": FETCH_BYTES // KILOBYTE,
        "queued.min.messages": 10_000,
        # A reader that turns to another partition first waits for the answer under way: at most so long.
        "fetch.wait.max.ms": 50,
        # The default, a second, is how long a reader would starve once its queue had been full.
        "fetch.queue.backoff.ms": 20,
        "receive.message.max.bytes": floors(definition)["receive.message.max.bytes"],
    }
    if membership.instance:
        ours["group.instance.id"] = membership.instance
    return _laid_over(broker, ours, given, leave_out=PRODUCER_ONLY)


def admin(broker: str, given: Mapping[str, str]) -> KafkaProperties:
    """A client that makes and describes topics."""
    return _laid_over(broker, {}, given, leave_out=CONSUMER_ONLY | PRODUCER_ONLY)


@dataclass(frozen=True)
class Membership:
    """A member of a consumer group; without an instance id its place is given away as soon as it leaves."""

    group: str
    session_timeout_milliseconds: int
    instance: str = ""


@functools.cache
def compression() -> str:
    """``zstd`` if this build of librdkafka has it, else ``lz4``.

    Measured on deltas of 6 to 300 features: zstd leaves 61 % of the bytes, lz4 76 %, at about 5 against 2 ms of
    processor time a megabyte; of rows of float64 with three decimals 30 % and 50 %, of rows of noise 96 % and 100 %.
    """
    from confluent_kafka import KafkaException, Producer

    try:
        Producer({"compression.type": "zstd", "log_level": 0})
    except KafkaException:
        return "lz4"
    return "zstd"


def _laid_over(
    broker: str, ours: Mapping[str, Any], given: Mapping[str, str], leave_out: Iterable[str]
) -> KafkaProperties:
    """Our properties, with what was given laid over them as far as it applies to this kind of client."""
    left_out = frozenset(leave_out)
    common = {"bootstrap.servers": broker, "client.id": "deltaplane", "socket.keepalive.enable": True}
    applies = {name: value for name, value in given.items() if name not in left_out}
    return KafkaProperties({**common, **ours, **applies})
