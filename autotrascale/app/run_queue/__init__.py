"""Runs that clients of the server requested: their order, their processes, and their recovery after a crash.

A run that waits for its turn is an MLflow run of status SCHEDULED, with the request in its tags (`run_requests`). The
queue has no table of its own beside the store, for three reasons: a request and its run cannot disagree after a crash;
it works with every store that MLflow supports; and the command line sees and cancels waiting runs without a server.
MLflow has no order of runs, so the queue keeps the order in memory and reads it back when it starts (`supervisor`).
Only one server at a time works for one name in one store (`server_lock`).

Each run has a process of its own (`worker`), so that neither Spark nor the mathematics of tuning runs in the server. A
pipe connects it to the server. If the pipe closes, however the server died, the run keeps its last trial and ends. The
server of that name resumes runs whose tag `autotrascale.queue` is `wanted`. It gives up a run that kills its process
several times.

Jobs take turns (round-robin), and within a job the first request runs first. A job has one run at a time.
"""
