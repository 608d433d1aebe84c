"""The parts of `benchmarks/executors_bench.py`."""
