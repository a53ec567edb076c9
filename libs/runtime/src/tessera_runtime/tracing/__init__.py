"""Traces: spans, their context, and their export."""
