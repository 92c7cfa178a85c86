"""The processors on Kafka: loops that poll, decode nothing themselves, hand records to a processor, and publish.

Order of the modules: ``log`` (reading and publishing, by offset), ``worker``, ``merger``, ``scorer`` (the services'
loops), ``life`` (signals and shutdown).
"""
