"""What people see of a running stream: metrics, health, refusals in the log, the terminal view and the report.

May import: the core and ``processors``. Gives: values and pages. It never changes what it observes.
"""

from __future__ import annotations
