"""Real Spark jobs with a known fault: a bottleneck, a wrong executor size, a daily load."""
