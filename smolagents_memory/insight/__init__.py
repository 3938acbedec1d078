"""An agent's memory as a person or a program wants to look at it."""
