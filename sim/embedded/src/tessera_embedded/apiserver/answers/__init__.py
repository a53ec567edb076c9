"""Answers about the server itself, and to what is asked and not kept: tables, reviews."""
