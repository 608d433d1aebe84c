"""What `autotrascale doctor` looks at: small checks, each of which says what it saw and what to do about it."""
