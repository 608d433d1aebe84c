"""Engines behind one port: what runs a job at a parallelism vector and tells what happened."""
