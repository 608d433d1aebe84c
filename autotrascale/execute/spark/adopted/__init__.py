"""Somebody else's PySpark program, unchanged: in its driver its queries are watched, stopped, moved, started again."""
