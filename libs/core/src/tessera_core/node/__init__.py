"""What an agent decides on its node: admission of containers, lending, usage."""
