"""What people see of a running stream: metrics, health, refusals in the log, the terminal picture and the report.

May import: the core and ``processors``. Gives: values and pages; it never changes what is observed.
"""

from __future__ import annotations
