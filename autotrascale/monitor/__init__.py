"""Spark's raw facts as metric points, and the stores that keep them, all behind one port."""
