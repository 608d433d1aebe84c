"""The data pipeline on PySpark: archives of event logs → typed tables → snapshots."""
