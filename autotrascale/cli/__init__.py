"""Command line of AuTraScale: one module for each verb, with its options and its output."""
