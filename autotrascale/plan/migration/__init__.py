"""How state gets from some owners to others: bins of keys, plans of moves, and what each of them costs."""
