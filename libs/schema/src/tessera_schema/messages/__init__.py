"""What travels over NATS: the envelope, the catalogue of events, and the data of each;
messages about plans and quotas stand with their objects."""
