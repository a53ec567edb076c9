"""Messages over NATS: subjects and envelopes of tessera_schema, at least once; losses are
reported."""
