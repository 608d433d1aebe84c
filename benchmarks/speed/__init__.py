"""Benchmarks of time, memory and CPU."""
