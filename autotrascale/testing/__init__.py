"""Fakes, contract suites and Hypothesis strategies for tests of this package and of plug-ins."""
