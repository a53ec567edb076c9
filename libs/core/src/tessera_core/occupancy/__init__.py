"""Which pod holds what of each card and what it uses, in rows, as people read a cluster."""
