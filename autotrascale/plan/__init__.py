"""Pure decisions: what a job needs, how to look for it, when to act. No I/O, clock, environment or global RNG."""
