"""Jobs built with `Flow`: operators, marks, the load generator, and the word count that ships with the package."""
