"""How fast, and with which answers: ``bench throughput``, ``bench latency``, ``bench statistics``.

Every figure stands beside the digest of what was learned and whether that is the digest of the batch: a fast wrong
answer is no answer. Machines differ and are shared, so every table also gives processor time a row, which a busy
neighbour disturbs least.

Read: ``figures`` (a table, as text and JSON), ``made_rows`` (the stream), ``pairs`` (two ways compared on a busy
machine), then ``exact_pass``, ``halves``, ``statistics_speed``, ``refresh``, ``embedded``, ``processes``,
``throughput``, ``latency``, ``commands``.
"""
