"""What keeps a gang from starting: its objects, its queue, a member, or the cluster itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tessera_core.admission.admit import AdmittedPod
from tessera_core.explain.reasons import explain, summary
from tessera_core.gang_planner.answers import GangNotPlaced, fitting
from tessera_core.gangs.catalog import GangCatalog
from tessera_core.gangs.gang import Gang, GangMembers
from tessera_core.gangs.queue_usage import ClusterQueues, amounts_of, sum_of
from tessera_core.gangs.quorum import missing_members
from tessera_core.gangs.reservation import GangReserved, reserve_gang
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.placement.units import units
from tessera_core.planner import Planner
from tessera_core.quota.allowance import minimum_usage
from tessera_schema.kube import Node
from tessera_schema.verdicts import PlanOutcome, Verdict

Admissions = Mapping[str, AdmittedPod | PlanOutcome]
"""Pod's uid -> as it is admitted, or its own answer."""


class Hindrances:
    """Looks for them. What it asks of the planner changes nothing."""

    def __init__(
        self,
        planner: Planner,
        catalog: GangCatalog,
        queues: ClusterQueues,
        nodes: Sequence[Node],
    ) -> None:
        """`queues` have what is used of them, as far as pods are placed."""
        self._planner = planner
        self._catalog = catalog
        self._queues = queues
        self._nodes = nodes

    def before_placement(self, gang: Gang, admitted: Admissions) -> GangNotPlaced | None:
        """What keeps the gang's bundle from starting whatever room there is."""
        for members in self._catalog.bundle(gang):
            if isinstance(members, str):
                remedy = "create it, or take it out of the list of groups"
                return GangNotPlaced(
                    Verdict.WAITING, f"gang {members} of its bundle does not exist", remedy
                )
            found = (
                _written(members.gang)
                or self._queued(members.gang)
                or _too_few(members)
                or _unfit(members, admitted)
            )
            if found is not None:
                return found
        return None

    def over(
        self, bundle: Sequence[GangMembers], together: Sequence[MemberRequest]
    ) -> GangNotPlaced | None:
        """The cap of a queue that these members would exceed together."""
        for members in bundle:
            queue = self._queues.of_gang(members.gang)
            if queue is None or not self._queues.known(queue[0]):
                continue
            of_gang = together
            if len(bundle) > 1:
                uids = {member.pod.metadata.uid for member in members.waiting}
                of_gang = [each for each in together if each.pod.metadata.uid in uids]
            asked = sum_of(
                amounts_of(each.pod, minimum_usage(each.request) if each.request else {})
                for each in of_gang
            )
            over = self._queues.over(*queue, asked)
            if over:
                never = self._queues.over(*queue, asked, idle=True)
                remedy = "ask for less, or raise what the queue may use"
                return GangNotPlaced(Verdict.REJECTED if never else Verdict.WAITING, over, remedy)
        return None

    def never(
        self, bundle: Sequence[GangMembers], together: Sequence[MemberRequest]
    ) -> GangNotPlaced | None:
        """Why the members would not fit even if no pod ran; None where they would, or where that is
        not sure."""
        ledger, filters = self._planner.idle()
        domains = self.domains(bundle[0])
        found = reserve_gang(ledger, filters, together, 0, domains=domains)
        if isinstance(found, GangReserved):
            for seat in found.seats.values():
                if seat.grant is not None:
                    ledger.forget(seat.grant.uid)
            return None
        if found.over:
            return GangNotPlaced(Verdict.REJECTED, found.over, "ask for less, or raise the quota")
        if found.exhausted:
            return None
        alone = self._fits_nowhere(found.short)
        if alone:
            remedy = "ask for less, or add a node that has it"
            return GangNotPlaced(Verdict.REJECTED, alone, remedy)
        where, add = "even on idle nodes", "nodes"
        if domains is not None and bundle[0].gang.domain is not None:
            where = f"even idle, no nodes of one {bundle[0].gang.domain.key} take all:"
            add = f"nodes with one value of {bundle[0].gang.domain.key}"
        least = " or ".join(dict.fromkeys(each.gang.source for each in bundle))
        return GangNotPlaced(
            Verdict.REJECTED, f"{where} {fitting(found)}",
            f"add {add}, ask for less, or lower {least}",
        )  # fmt: skip

    def domains(self, members: GangMembers, placed: Iterable[str] = ()) -> list[set[str]] | None:
        """The nodes of each value of the label that all members share, None for any nodes; of a
        gang of which some run, or are `placed` on these nodes, those of their value."""
        gang = members.gang
        if gang.domain is None or not gang.domain.required:
            return None
        near = {*placed, *(member.pod.spec.node_name for member in members.bound)}
        found: dict[str, set[str]] = {}
        for node in self._nodes:
            value = node.metadata.labels.get(gang.domain.key)
            if value is not None:
                found.setdefault(value, set()).add(node.name)
        return [nodes for nodes in found.values() if not near or near & nodes]

    def _queued(self, gang: Gang) -> GangNotPlaced | None:
        queue = self._queues.of_gang(gang)
        problem = self._queues.problem(*queue) if queue is not None else ""
        if not problem:
            return None
        why, _, remedy = problem.rpartition(": ")
        where = f"{gang.queue_field}: " if gang.queue_field else ""
        return GangNotPlaced(Verdict.WAITING, where + why, remedy)

    def _fits_nowhere(self, member: MemberRequest | None) -> str:
        """That the member asks for what no node has, with the reasons; empty where a node does."""
        if member is None:
            return ""
        ledger, filters = self._planner.idle()
        if isinstance(reserve_gang(ledger, filters, [member], 0), GangReserved):
            ledger.forget(member.pod.metadata.uid)
            return ""
        asks = f"member {member.pod.name} asks for what no node has, even idle"
        refused = filters.refusals(member.pod)
        if member.request is None:
            return f"{asks}: {'; '.join(dict.fromkeys(text for _, text in refused.values()))}"
        allowance = ledger.allowance(member.request.namespace)
        whys = explain(ledger.fleet, units(member.request), allowance, refused)
        nearest = next((f" ({why.node}: {why.message})" for why in whys), "")
        return f"{asks}: {summary(whys, len(ledger.fleet.rows))}{nearest}"


def _written(gang: Gang) -> GangNotPlaced | None:
    """What its objects say wrong. One that does not exist may be created."""
    if not gang.problem:
        return None
    why, _, remedy = gang.problem.rpartition(": ")
    absent = why.endswith("does not exist")
    return GangNotPlaced(Verdict.WAITING if absent else Verdict.REJECTED, why, remedy)


def _too_few(members: GangMembers) -> GangNotPlaced | None:
    """Pods that wait for others than Tessera may still come: then the gang waits too."""
    lacks = missing_members(members)
    if not lacks:
        return None
    hoped = len(members.barred) + len(members.waiting) + len(members.bound)
    waits = bool(members.barred) and hoped >= members.gang.min
    remedy = f"create the others, or lower {members.gang.source}"
    return GangNotPlaced(Verdict.WAITING if waits else Verdict.REJECTED, lacks, remedy)


def _unfit(members: GangMembers, admitted: Admissions) -> GangNotPlaced | None:
    """A member that cannot be placed whatever is free."""
    for member in members.waiting:
        found = admitted[member.pod.metadata.uid]
        if isinstance(found, PlanOutcome) and (found.verdict is Verdict.REJECTED or found.unserved):
            message = f"member {member.pod.name}: {found.message}"
            return GangNotPlaced(Verdict.REJECTED, message, "change that pod")
    return None
