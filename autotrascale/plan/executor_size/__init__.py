"""How large an executor should be: which size is wrong (`policies`), what a cluster can give (`fitting`), when (`steps`)."""
