"""The cards of the node: polled, concluded, published."""
