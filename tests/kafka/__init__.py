"""A real Kafka for the tests: what starts one, what lends it to tests, and the tests of both.

A package, unlike its neighbours: ``kafka`` is also the name of a client library, and a bare directory would lose to it.
"""
