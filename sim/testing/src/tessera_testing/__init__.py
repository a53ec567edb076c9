"""Builders and public fakes for tests, Tessera's and those of people who write dialects."""
