"""Programs whose processes are killed while they are relaunched with other executor sizes."""
