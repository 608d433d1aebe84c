"""Examples: jobs to tune, ordinary streaming programs to adopt, and a notebook."""
