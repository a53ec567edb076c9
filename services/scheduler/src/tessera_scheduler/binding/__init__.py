"""Bindings: writing them, settling their outcome, and changing grants later."""
