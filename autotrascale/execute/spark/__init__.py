"""The real engine: one warm Spark session in a host process, a job's query at one parallelism vector after another."""
