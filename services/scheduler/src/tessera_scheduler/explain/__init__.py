"""Explanations of pods, put together from decisions, the ledger and the pod."""
