"""A step to data and back, and the list of steps that notices what happens to it."""
