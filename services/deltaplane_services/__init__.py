"""Everything of Deltaplane that touches a file, a clock, a terminal or a broker; no mathematics."""
