"""Killing what runs a job, whatever it is doing, and counting what the job has lost or doubled: `kill_bench.py`."""
