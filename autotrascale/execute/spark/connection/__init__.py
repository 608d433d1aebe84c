"""Our end of the line to a host: its process, messages, and how its loss is noticed."""
