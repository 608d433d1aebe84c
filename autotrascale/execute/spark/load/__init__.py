"""The load that we put on a job: schedules, the load file, and the source that makes records of it."""
