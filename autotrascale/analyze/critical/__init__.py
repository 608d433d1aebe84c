"""What a job's latency is made of: the critical paths through what its driver and its slots do, and who is on them."""
