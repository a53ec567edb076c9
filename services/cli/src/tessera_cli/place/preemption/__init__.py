"""Which pods would have to go for those that wait: read, answered, printed."""
