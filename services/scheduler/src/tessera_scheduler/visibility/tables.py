"""Explanations as a Table, which is what `kubectl get` asks for and prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tessera_schema.endpoints.visibility import ExplanationListMeta, PodExplanation

_KIND: Final = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}
_COLUMNS: Final = (
    ("Name", "name", "Name of the pod"),
    ("Verdict", "", "What became of it"),
    ("Node", "", "Where it is"),
    ("Why", "", "Why it waits, or what would help"),
)


def wanted(accept: str) -> bool:
    """Whether a client's Accept header asks for a Table."""
    return "as=Table" in accept and "v=v1;" in f"{accept};".replace(" ", "").replace(",", ";")


def table(items: Sequence[PodExplanation], metadata: ExplanationListMeta) -> dict[str, Any]:
    """A Table with a row for each explanation."""
    return {
        **_KIND,
        "metadata": msgspec.to_builtins(metadata),
        "columnDefinitions": [
            {"name": name, "type": "string", "format": form, "description": text, "priority": 0}
            for name, form, text in _COLUMNS
        ],
        "rows": [_row(item) for item in items],
    }


def _row(item: PodExplanation) -> dict[str, Any]:
    return {
        "cells": [item.metadata.name, item.verdict, item.node, item.advice or item.message],
        "object": {
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": msgspec.to_builtins(item.metadata),
        },
    }  # fmt: skip
