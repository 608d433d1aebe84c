"""Spark: users' programs and Flow jobs, observed and rescaled. Folders are sorted by operating-system process.

    driver_agent   runs in a Spark driver
    controller     runs in our process; `supervisor.py` is a process of its own
    protocol       messages between both
    common         values and files that both use
    clusters       executors of local, standalone, YARN and Kubernetes clusters
    jobs           Flow, marks, load generator, word count

`driver_agent` and `controller` do not import each other.
"""
