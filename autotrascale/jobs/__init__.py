"""PySpark jobs to tune. Nothing imports them: they are loaded by name, "module:attribute", like a user's own."""
