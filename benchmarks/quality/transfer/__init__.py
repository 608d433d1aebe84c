"""The parts of benchmarks/quality/transfer_bench.py: which jobs, how each search runs, what is measured, how it is told."""
