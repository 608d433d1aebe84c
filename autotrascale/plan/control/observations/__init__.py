"""What a look at a job can be believed to say, and what only looks like a lack of parallelism."""
