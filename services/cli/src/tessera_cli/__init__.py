"""The `tessera` command: what a user runs, before and after anything is installed."""
