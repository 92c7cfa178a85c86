"""The live stream in a terminal, from the services' own ``/metrics``: gather answers, make a frame, draw it.

No broker is asked and nothing is stored: a frame holds what the services answered a moment ago. A service that does not
answer has a line that says so. What only that service knew is shown as unknown, never as an old number.
"""
