"""What the demo shows: nodes, a quota, and pods, as the YAML files next to this one have them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from tessera_embedded.node.settings import NodeDescription


class Scenario(Struct, frozen=True):
    """All of it."""

    nodes: tuple[NodeDescription, ...]
    quotas: tuple[Mapping[str, Any], ...]
    pods: tuple[Mapping[str, Any], ...]

    @property
    def all_nodes(self) -> list[str]:
        """Names of the scene's nodes, and of those that later acts bring."""
        later = ("lending", "plans")
        acts = (yaml.safe_load(_file(f"{act}.yaml"))["node"]["name"] for act in later)
        return [*(node.name for node in self.nodes), *acts]

    @property
    def namespaces(self) -> list[str]:
        """Every namespace that something is in."""
        objects = (*self.quotas, *self.pods)
        return list(dict.fromkeys(o["metadata"]["namespace"] for o in objects))


WAITS = frozenset({"hami/too-large-for-now", "small-team/beyond-quota"})
"""Pods that have to wait; the second one for its team's quota."""
REFUSED = frozenset({"gpumanager/one-and-a-half"})
"""Pods that are never created."""
BEYOND_QUOTA = "small-team/beyond-quota"


def _file(name: str) -> str:
    return (files(__package__) / "scene" / name).read_text()


def read_scenario() -> Scenario:
    """The scene of the package."""
    folder = files(__package__) / "scene"
    nodes = yaml.safe_load((folder / "nodes.yaml").read_text())
    return Scenario(
        nodes=msgspec.convert(nodes, tuple[NodeDescription, ...]),
        quotas=tuple(yaml.safe_load_all((folder / "quota.yaml").read_text())),
        pods=tuple(yaml.safe_load_all((folder / "pods.yaml").read_text())),
    )


def name_of(pod: Mapping[str, Any]) -> str:
    """`namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
