"""`tessera report`: what namespaces and owners were granted and used, and what would be enough."""
