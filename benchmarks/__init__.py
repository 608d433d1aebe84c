"""Measurements of the project's own speed, each runnable as `python -m benchmarks.<name>`."""
