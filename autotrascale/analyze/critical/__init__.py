"""Critical paths through the work of a job's driver and slots, and the share of each part in them."""
