"""What a newcomer starts from: the job files of the demo, and job files made from a script, an event log or answers."""
