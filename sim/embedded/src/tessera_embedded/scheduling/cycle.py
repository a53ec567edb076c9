"""One pod's cycle: kube-scheduler's filters, then the extenders', then scores, then a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tessera_embedded.scheduling.cache import SchedulerCache
from tessera_embedded.scheduling.extenders import ExtenderClient, ExtenderFailed, interested
from tessera_embedded.scheduling.messages import said, summary
from tessera_embedded.scheduling.types import PodInfo


class Chosen(Struct, frozen=True):
    """The node for the pod."""

    node: str


class NoNodeFits(Struct, frozen=True):
    """No node will do now."""

    message: str


async def choose(
    view: SchedulerCache, callers: Sequence[ExtenderClient], pod: PodInfo
) -> Chosen | NoNodeFits:
    """A node for the pod. Raises ExtenderFailed where an extender that counts does not answer."""
    total = len(list(view.nodes))
    failed = said(view.refusals(pod.pod))
    left = [node for node in view.nodes if node not in failed]
    concerned = [c for c in callers if interested(c.config, pod.pod)]
    for caller in concerned:
        if not left or not caller.config.filter_verb:
            continue
        try:
            answer = await caller.filter(pod, left)
        except ExtenderFailed:
            if caller.config.ignorable:
                continue
            raise
        for refused in (answer.failed_and_unresolvable_nodes, answer.failed_nodes):
            failed |= {node: (word,) for node, word in (refused or {}).items()}
        left = _offered(caller, answer.node_names or (), left)
    if not left:
        return NoNodeFits(summary(total, failed.values()))
    return Chosen(await _best(concerned, pod, left))


def _offered(caller: ExtenderClient, names: Sequence[str], offered: Sequence[str]) -> list[str]:
    for name in names:
        if name not in offered:
            raise ExtenderFailed(
                f"extender {caller.config.url_prefix} claims a filtered node: "
                f'"{name}" which is not found in the input node list'
            )
    return list(names)


async def _best(callers: Iterable[ExtenderClient], pod: PodInfo, nodes: Sequence[str]) -> str:
    """The node with the highest score; among equals the first by name. kube-scheduler draws lots
    there, and asks nobody when only one node is left."""
    if len(nodes) == 1:
        return nodes[0]
    scores = dict.fromkeys(nodes, 0)
    for caller in callers:
        if not caller.config.prioritize_verb:
            continue
        try:
            answer = await caller.prioritize(pod, nodes)
        except ExtenderFailed:
            continue  # kube-scheduler goes on without these scores
        for line in answer:
            if line.host in scores:
                scores[line.host] += line.score * caller.config.weight
    return min(nodes, key=lambda node: (-scores[node], node))
