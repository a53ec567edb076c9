"""The ledger in step with the API server: lists, watches, and messages of the bus."""
