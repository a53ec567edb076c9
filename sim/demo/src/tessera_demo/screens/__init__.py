"""What the demo draws: pure lines of text, and the terminal they are put on."""
