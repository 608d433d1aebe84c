"""Simulated streaming jobs, pipelined and in micro-batches: seeded, fast, and never anything but simulated."""
