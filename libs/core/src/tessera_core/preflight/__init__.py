"""What `tessera check` finds before and after an installation, from objects of the API server."""
