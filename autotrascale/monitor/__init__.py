"""Monitoring: event logs, metric stores, counters of the machine, and latencies of services."""
