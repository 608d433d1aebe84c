"""Queries with a known bottleneck, and what is found of it."""
