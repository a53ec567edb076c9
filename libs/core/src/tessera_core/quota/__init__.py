"""What namespaces may use, use, and lend each other."""
