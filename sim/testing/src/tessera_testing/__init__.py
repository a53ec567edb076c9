"""Builders and public fakes for tests, ours and those of people who write dialects."""
