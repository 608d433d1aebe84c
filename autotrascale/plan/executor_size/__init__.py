"""How large an executor should be: what is wrong (`policies`), what can be had (`fitting`), and when (`steps`)."""
