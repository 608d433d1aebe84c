"""Benchmarks of speed, quality and faults. `python -m benchmarks.run` runs them and writes their results."""
