"""What namespaces and owners were granted and what they used over days, and what would be enough
(`tessera report`)."""
