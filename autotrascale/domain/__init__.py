"""Values that every package uses: topology, snapshot, target, decision, errors. Frozen, validated, without I/O."""
