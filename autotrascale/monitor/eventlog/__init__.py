"""Spark's event logs: files, lines, one decoder, typed events."""
