"""What everyone speaks: topology, parallelism, snapshot, target, decision, errors. Frozen, validated, no I/O."""
