"""PodGroups and queues of a file, and the pods that may be of a gang; their meaning is
`tessera_core.gangs`."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from tessera_cli.errors import Malformed, Repeated
from tessera_cli.input.manifests import Item, named
from tessera_cli.place.decode import called, convert
from tessera_cli.place.lenient import without_nulls
from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.gang_planner.planner import GangPlanner
from tessera_core.gangs.catalog import read_gangs
from tessera_core.gangs.gang import Gang, GangOrigin
from tessera_core.gangs.pod_groups import POD_GROUPS, BadPodGroup, PodGroup, gang_of
from tessera_core.gangs.queue_objects import QueueObject, QueueReader
from tessera_core.gangs.queue_usage import ClusterQueues
from tessera_core.gangs.queues import KOORDINATOR_QUOTA, PLAIN_QUOTA, VOLCANO_QUEUE, QueueSpec
from tessera_core.planner import Planner
from tessera_core.recovery.cluster import Cluster
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import Pod

GROUP_KINDS: Final = tuple((group, "PodGroup") for group in POD_GROUPS)
QUEUE_KINDS: Final = {
    (origin.group, origin.kind): origin
    for origin in (VOLCANO_QUEUE, KOORDINATOR_QUOTA, PLAIN_QUOTA)
}


class GangObjects:
    """Collects them. Adding raises Malformed or Repeated."""

    def __init__(self, registry: DialectRegistry) -> None:
        """`registry` knows the units of resource names."""
        self.pods: list[Pod] = []
        """Every pod that may count for a gang, those that have ended among them."""
        self._groups: dict[str, Gang] = {}
        self._queues: dict[tuple[str, str, str], QueueSpec] = {}
        self._reader = QueueReader(registry)

    def add_group(self, item: Item) -> None:
        """Take in a PodGroup."""
        raw = _named(item)
        where = called(item, raw)
        self.add(POD_GROUPS[item.group], convert(raw, PodGroup, where), where)

    def add(self, origin: GangOrigin, group: PodGroup, where: str, source: str = "") -> None:
        """Take in a PodGroup that is made of something else; `source` is what sets its minimum
        there."""
        try:
            gang = gang_of(origin, group)
        except BadPodGroup as e:
            raise Malformed(where, e.field, named(e.value), e.remedy) from e
        if gang.id in self._groups:
            raise Repeated(where, f"PodGroup {gang.key} is there twice", "remove one of the two")
        self._groups[gang.id] = replace(gang, source=source) if source else gang

    def add_queue(self, item: Item) -> None:
        """Take in a Queue or an ElasticQuota."""
        raw = _named(item)
        where = called(item, raw)
        written = convert(raw, QueueObject, where)
        try:
            queue = self._reader.read(QUEUE_KINDS[item.group, item.kind], written)
        except BadLimit as e:
            raise Malformed(where, e.field, named(e.value), e.remedy) from e
        key = item.group, queue.namespace, queue.name
        if key in self._queues:
            raise Repeated(where, f"{queue.where} is there twice", "remove one of the two")
        self._queues[key] = queue

    def planner(self, planner: Planner, cluster: Cluster) -> GangPlanner:
        """What plans the pods that are of gangs."""
        catalog = read_gangs(self.pods, self._groups.values(), planner.left_to_others)
        return GangPlanner(
            planner, catalog, ClusterQueues(self._queues.values()),
            nodes=cluster.nodes, bound=cluster.bound,
        )  # fmt: skip


def _named(item: Item) -> dict[str, Any]:
    raw: dict[str, Any] = without_nulls(item.generic())
    meta = raw.get("metadata")
    if not isinstance(meta, dict) or not meta.get("name"):
        raise Malformed(called(item, raw), "metadata.name", "missing", "name the object")
    return raw
