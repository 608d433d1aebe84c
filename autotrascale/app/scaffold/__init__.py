"""Job files for `autotrascale init` and `demo`: made from a script, from an event log or from answers."""
