"""NATS as news: subjects and envelopes from tessera_schema, at least once, nothing lost silently."""
