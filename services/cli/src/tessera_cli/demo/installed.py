"""What an installation applies beside the services: the definitions of Tessera's own objects, as
`deploy/kustomize` has them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tessera_cli.demo.creating import insist
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube

BASE: Final = Path(__file__).parents[5] / "deploy" / "kustomize" / "base"
_DEFINITIONS: Final = paths.in_group("apiextensions.k8s.io", "v1", "customresourcedefinitions")


async def install_definitions(kube: Kube) -> None:
    """Create every definition. Raises ApiRefused."""
    for definition in await asyncio.to_thread(_documents, "crds"):
        await insist(kube, _DEFINITIONS, definition)


def _documents(folder: str) -> list[Mapping[str, Any]]:
    return [
        document
        for file in sorted((BASE / folder).glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    ]
