"""A CodeAgent's Python variables, to data and back."""
