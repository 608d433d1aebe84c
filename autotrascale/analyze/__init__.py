"""The meaning of events: facts of batches, operators of stages, metrics, snapshots, stability of a trial.

`live` follows a running job. `archive` reads whole logs, in this process or on PySpark. `critical` finds critical
paths.
"""
