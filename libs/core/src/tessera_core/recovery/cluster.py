"""A cluster as the API server shows it: what planning starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tessera_core.inventory.node_settings import NodeSettings
from tessera_schema.kube import Custom, Node, Pod
from tessera_schema.quotas import Limit


class Cluster(Struct, frozen=True, kw_only=True):
    """Nodes, the pods that are bound to them, custom resources that describe cards, limits."""

    nodes: Sequence[Node] = ()
    bound: Sequence[Pod] = ()
    customs: Sequence[Custom] = ()
    """Objects such as Koordinator's Device; a dialect picks its own by `kind`."""
    limits: Sequence[Limit] = ()
    namespaces: Mapping[str, Mapping[str, str]] = {}
    """Name -> labels; those that are not here have none."""
    settings: NodeSettings | None = None
    """Settings of cards; None = as the nodes publish them."""
