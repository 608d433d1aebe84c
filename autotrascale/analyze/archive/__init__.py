"""Archives of event logs → snapshots, log by log."""
