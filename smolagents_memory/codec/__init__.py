"""A step to plain data and back."""
