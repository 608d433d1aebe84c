"""A job that runs now: events as they come → batches → a snapshot."""
