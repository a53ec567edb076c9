"""The dialects and vendors that are on, and what is derived from all of them."""
