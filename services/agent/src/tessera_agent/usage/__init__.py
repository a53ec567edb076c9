"""What containers use of the cards, and what the driver measures of it."""
