"""The cards of all nodes in columns, and what shares cost them."""
