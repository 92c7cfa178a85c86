"""The processors on Kafka: loops that poll, hand records to a processor undecoded, and publish what it returns.

Where to begin: ``log`` reads by offset, and ``publishing`` writes; ``service_loop`` is the loop that all services
share, and ``worker_loop``, ``merger_loop`` and ``scorer_loop`` are the three services; ``service_life`` is about
signals and shutdown.
"""
