"""Whether a container may have the cards that its pod was granted."""
