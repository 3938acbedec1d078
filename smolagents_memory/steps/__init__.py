"""What a step is: its kinds, its calls, its texts, its marks."""
