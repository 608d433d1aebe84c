"""The parts of `benchmarks/quality/executors_bench.py`."""
