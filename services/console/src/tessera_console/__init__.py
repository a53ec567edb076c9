"""The console: one page for people, which shows cards, what waits, quotas, plans and events."""
