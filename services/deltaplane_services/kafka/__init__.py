"""The processors on Kafka: loops that poll, hand records to a processor undecoded, and publish what it returns.

Where to begin: ``log`` reads by offset, and ``publishing`` writes. ``service_loop`` is the loop that all services
share. ``worker_loop``, ``merger_loop``, ``scorer_loop`` and ``intake_loop`` are the services. ``service_life`` handles
signals and shutdown.
"""
