"""The parts of the search benchmark, `benchmarks/quality/transfer_bench.py`: figures, goals, records and tables."""
