"""A list of steps: what happens to it, its messages, and its files."""
