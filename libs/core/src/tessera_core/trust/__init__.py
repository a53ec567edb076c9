"""Signatures of grants and messages, and the fencing of former leaders."""
