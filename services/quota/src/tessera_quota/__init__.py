"""The quota monitor: what namespaces use of their quotas, and what follows when it is too much."""
