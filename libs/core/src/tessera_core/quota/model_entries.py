"""Entries of a quota that are for models of cards."""

from __future__ import annotations

from collections.abc import Mapping


def entry_of(models: Mapping[str, float], model: str) -> str | None:
    """The first entry that the model's name contains."""
    return next((entry for entry in models if entry.lower() in model.lower()), None)


def may_be(entry: str, model: str) -> bool:
    """Whether a pod that asks for a model (as part of its name; empty = any) may be given cards
    that count under an entry."""
    return entry.lower() in model.lower() or model.lower() in entry.lower()
