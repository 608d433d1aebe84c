"""Pure decisions: sizing, search, policies and control. No I/O, clock, environment or global random numbers."""
