"""The runs that a server was asked for: in which order they run, in which process, and how none of them is lost.

A run that waits for its turn is an MLflow run of status SCHEDULED, with what was asked for in its tags (`entries`).
There is no second table beside the store, for three reasons: a submission and its run cannot disagree after a crash;
it works with every store that MLflow works with, not only with a file; and the command line sees and cancels what waits
without knowing of servers. What MLflow cannot do is done here: the order is kept in memory and read back at the start
(`keeper`), and one server at a time works for one name in one store (`lock`).

Each run is a process of its own (`worker`), so that neither Spark nor a tuning's mathematics is in the server. It hangs
on a pipe to the server: when that closes, however the server died, the run is interrupted, keeps its last evaluation
and ends. A run whose tag `autotrascale.queue` says `wanted` is brought to its end by the server of its name, over as
many starts of either as it takes; a run that kills its process again and again is given up.

Turns are round-robin over jobs and first come, first served within a job; a job has one run at a time.
"""
