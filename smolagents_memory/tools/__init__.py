"""What an agent can call: recall, remember, forget, and the full original of a step that was cut."""
