"""Benchmarks of decisions: searches, control loops, executor sizes and critical paths."""
