"""The dialects, each one module or package beside this file; adding one is adding its file."""
