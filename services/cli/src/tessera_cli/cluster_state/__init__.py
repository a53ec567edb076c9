"""A cluster's cards as the API server has them, and as agents report them on the bus."""
