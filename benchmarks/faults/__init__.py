"""Benchmarks that kill processes, attack the service or spoil measurements, and count the damage."""
