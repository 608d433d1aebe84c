"""What is known and kept, in MLflow: the journal of tuning runs, and the library of benefit models."""
