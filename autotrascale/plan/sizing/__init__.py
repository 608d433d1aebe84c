"""Sizing of a job at a rate: true rates, demand, loads, bounds and the throughput floor."""
