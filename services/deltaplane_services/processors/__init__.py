"""The worker, the merger and the scorer as pure processors: records and time in, records out.

A processor never talks to a broker. Two runners drive the same processors: one on Kafka, and one in process. So tests
and simulations in process run the very code that runs on Kafka.
"""
