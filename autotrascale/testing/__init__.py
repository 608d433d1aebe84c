"""Fakes, contract suites and strategies that others may use."""
