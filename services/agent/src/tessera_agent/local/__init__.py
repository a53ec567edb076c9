"""The cards of one machine shared among its processes and users, without a cluster."""
