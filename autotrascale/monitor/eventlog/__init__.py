"""Spark's event log: which files, which lines, one decoder, typed events."""
