"""Somebody else's PySpark program, unchanged: its queries are watched, stopped, moved and started again in its driver."""
