"""The dialects, each one module or package next to this file; adding one is adding its file."""
