"""The data pipeline, on PySpark: event logs → typed tables → operator metrics → snapshots.

`pipeline.analyze` has it on one screen. One trial's log and a month of logs of many jobs go the same way.
"""
