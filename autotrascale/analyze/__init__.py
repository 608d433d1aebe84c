"""What events mean: facts of batches, which stage ran which operator, metrics, snapshots, does a trial keep up.

The same for a job that runs now (`live`) and for archives of any size (`archive`; its `pipeline` has it on one screen).
"""
