"""Metric points and the stores that keep them (SQLite, InfluxDB), behind one port."""
