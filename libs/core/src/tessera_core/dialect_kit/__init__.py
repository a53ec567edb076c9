"""What a dialect is made of: its contract, and what all dialects read with."""
