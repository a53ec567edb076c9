"""NATS carries news: subjects and envelopes of tessera_schema, at least once, no loss untold."""
