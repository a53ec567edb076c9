"""What the agent reads of the API server: pods and public keys."""
