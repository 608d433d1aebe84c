"""A running job: events as they come → batches → a snapshot."""
