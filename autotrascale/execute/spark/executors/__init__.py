"""The executors of an application: which there are, asking for more, and giving some back."""
