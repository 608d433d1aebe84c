"""What a job needs at a rate: true rates, demand, loads, bounds, the throughput floor."""
