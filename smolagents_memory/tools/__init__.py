"""What an agent can call: recall, remember, forget, the full original of a step, the state it shares."""
