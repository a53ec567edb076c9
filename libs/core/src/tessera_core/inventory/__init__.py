"""The cards of a node, from everything that publishes them."""
