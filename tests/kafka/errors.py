"""What may go wrong before a test has its Kafka, in two kinds that are treated differently."""

from __future__ import annotations


class KafkaUnavailable(Exception):
    """This machine has not got what running Kafka takes. Tests may be skipped for that, where nobody counts on them."""


class KafkaNotStarted(Exception):
    """Kafka was there and did not start, or did not answer. That is a failure everywhere."""
