"""The decision journal: every observation and decision of each control loop, in one SQLite file for all jobs."""
