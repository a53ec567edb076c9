"""`tessera migrate`: how far each node of a cluster is that another system serves."""
