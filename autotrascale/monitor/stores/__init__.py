"""Metric points and the stores they live in (SQLite, InfluxDB), behind one port."""
