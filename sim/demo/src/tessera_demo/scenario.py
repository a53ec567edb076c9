"""What the demo shows: nodes, dialects, quotas and pods, as the files in `scene` have them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct

from tessera_embedded.node.settings import NodeDescription

DIALECTS: Final = Path(__file__).parent / "scene" / "dialects.yaml"
"""The configuration of dialects that every service reads."""


class OptInDialects(Struct, frozen=True):
    """Pods of the dialects that are served only where the configuration names them."""

    node: NodeDescription
    """It joins when the other pods run."""
    pods: tuple[Mapping[str, Any], ...]


class Scenario(Struct, frozen=True):
    """All of it."""

    nodes: tuple[NodeDescription, ...]
    quotas: tuple[Mapping[str, Any], ...]
    first_pods: tuple[Mapping[str, Any], ...]
    """The pods that are there from the beginning."""
    opt_in: OptInDialects | None = None

    @property
    def pods(self) -> tuple[Mapping[str, Any], ...]:
        """All pods but those of later acts."""
        return (*self.first_pods, *(self.opt_in.pods if self.opt_in is not None else ()))

    @property
    def all_nodes(self) -> list[str]:
        """Names of the scene's nodes, and of those that join later."""
        later = ("opt_in", "lending", "plans", "gangs")
        acts = (yaml.safe_load(scene_text(f"{act}.yaml"))["node"]["name"] for act in later)
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


def scene_text(name: str) -> str:
    """A file of the folder `scene`."""
    return (files(__package__) / "scene" / name).read_text()


def read_scenario() -> Scenario:
    """The scene of the package."""
    return Scenario(
        nodes=msgspec.convert(
            yaml.safe_load(scene_text("nodes.yaml")), tuple[NodeDescription, ...]
        ),
        quotas=tuple(yaml.safe_load_all(scene_text("quota.yaml"))),
        first_pods=tuple(yaml.safe_load_all(scene_text("pods.yaml"))),
        opt_in=read_opt_in(),
    )


def read_opt_in() -> OptInDialects:
    """The part of the dialects that have to be named."""
    return msgspec.convert(yaml.safe_load(scene_text("opt_in.yaml")), OptInDialects)


def name_of(pod: Mapping[str, Any]) -> str:
    """`namespace/name`."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
