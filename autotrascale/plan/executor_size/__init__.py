"""The size of executors: which size is wrong (`sage_policies`), which sizes are possible (`clamp_to_cluster`), and when
to change them (`size_step`)."""
