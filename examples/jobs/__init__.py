"""PySpark jobs to tune. A job file names them like a user's own job, for example `examples.jobs.yahoo:Yahoo`."""
