"""RebalancePlans on the API server, and what carrying them out takes."""
