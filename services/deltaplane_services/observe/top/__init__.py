"""The live stream in a terminal, from the services' own ``/metrics``: gather, make a frame of it, draw the frame.

No broker is asked and nothing is stored: a frame holds what the services said a moment ago. A service that does not
answer is a line that says so, and what only it knew is unknown, never the number of before.
"""
