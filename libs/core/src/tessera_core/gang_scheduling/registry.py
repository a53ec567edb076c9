"""The gangs of a cluster as watches show them, one bundle at a time.

`tessera_core.gangs.catalog` reads all gangs at once. A scheduler gets one pod or one PodGroup after
another: here a change costs as much as the bundle that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.gangs.catalog import Bar, GangCatalog, read_gangs
from tessera_core.gangs.gang import Gang, GangMember, GangMembers, GangOrigin, MatchPolicy
from tessera_core.gangs.group_names import NamedGroup, TwoGroups, named_group
from tessera_core.gangs.quorum import missing_members, still_needed
from tessera_core.slices import Slices, for_each
from tessera_schema.kube import Pod


class GangBundle(Struct, frozen=True, kw_only=True, dict=True):
    """The gangs that start together with one gang, itself among them; mostly it is alone.

    What is worked out from its members is worked out once: the line of gangs reads it at each
    step."""

    ids: frozenset[str]
    """Of all its gangs, those that do not exist too."""
    gangs: tuple[GangMembers, ...] = ()
    absent: tuple[str, ...] = ()
    """`namespace/name` of gangs that others name and that do not exist."""
    refused: Mapping[str, str] = {}
    """Uid of a pod that is in none of the gangs though it names one -> why."""
    requests_cards: bool = False
    """Whether a member that waits asks for cards."""
    started: bool = False
    """Whether it is known to have started as a whole: gangs that are absent have ended since."""

    @cached_property
    def key(self) -> str:
        """The first id of its gangs."""
        return min(self.ids)

    @cached_property
    def name(self) -> str:
        """`namespace/name` of its gangs, as messages print them."""
        return ", ".join(dict.fromkeys(members.gang.key for members in self.gangs))

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """Those of its gangs."""
        return frozenset(members.gang.namespace for members in self.gangs)

    def name_for(self, reader: GangBundle) -> str:
        """What members of the other bundle are shown of its name: nothing of other namespaces."""
        near = self.namespaces <= reader.namespaces
        return f"gang {self.name}" if near else "a gang of another namespace"

    @property
    def terms(self) -> tuple[Gang, ...]:
        """What its objects say: with others, a search may find what the last one did not."""
        return tuple(members.gang for members in self.gangs)

    @cached_property
    def together(self) -> bool:
        """Whether its pods have to wait for each other; also where nobody can say yet."""
        return any(each.gang.together or each.gang.problem for each in self.gangs)

    @cached_property
    def priority(self) -> int:
        """The highest of its gangs."""
        return max(map(_priority, self.gangs))

    @cached_property
    def created(self) -> str:
        """When the first of its gangs was created, RFC 3339."""
        return min(map(_created, self.gangs))

    @cached_property
    def patience_s(self) -> float:
        """Seconds that a gang may wait by its own word: Volcano's sla-waiting-time alone means
        that. Infinity where none says so."""
        volcano = (each.gang for each in self.gangs if each.gang.origin is GangOrigin.VOLCANO)
        return min(
            (gang.patience_s for gang in volcano if gang.patience_s is not None), default=inf
        )

    @cached_property
    def waiting(self) -> tuple[GangMember, ...]:
        """All pods without a node that may be placed."""
        return tuple(member for members in self.gangs for member in members.waiting)

    @cached_property
    def arriving(self) -> bool:
        """Whether members have to arrive together each time, whatever runs."""
        return any(each.gang.match is MatchPolicy.ARRIVING for each in self.gangs)

    @property
    def populated(self) -> bool:
        """Whether any pod of it is there, or has ended well."""
        return any(
            each.waiting or each.barred or each.bound or each.succeeded for each in self.gangs
        )

    @cached_property
    def needed(self) -> int:
        """How many members have to start together now; 0 when they go one by one. A gang that is
        absent counts as one member, unless the others have started with it, or go by what has
        started once."""
        once = all(members.gang.match is MatchPolicy.ONCE for members in self.gangs)
        absent = 0 if self.started or once else len(self.absent)
        return absent + sum(still_needed(members)[0] for members in self.gangs)

    @cached_property
    def lacks(self) -> str:
        """What keeps it from starting whatever room there is; empty for nothing."""
        for key in self.absent:
            return f"gang {key} of its bundle does not exist: create it"
        found = (each.gang.problem or missing_members(each) for each in self.gangs)
        return next(filter(None, found), "")


class GangRegistry:
    """Follows the pods that name a gang, and the PodGroups."""

    def __init__(self, requests_cards: Callable[[Pod], bool], bar: Bar = lambda _: "") -> None:
        """`requests_cards` says whether a pod does, `bar` why Tessera does not place it."""
        self.changed: set[str] = set()
        """Ids of gangs about which something changed; the reader takes them out."""
        self._requests_cards = requests_cards
        self._bar = bar
        self._objects: dict[str, Gang] = {}
        self._pods: dict[str, Pod] = {}
        self._named: dict[str, NamedGroup] = {}
        """Pod's uid -> the gang that it names."""
        self._wrong: dict[str, str] = {}
        """Pod's uid -> why it is in no gang."""
        self._members: dict[str, set[str]] = {}
        self._succeeded: dict[str, dict[str, Pod]] = {}
        self._names: dict[str, frozenset[str]] = {}
        """Gang's id -> ids of the gangs that it, or a pod of it, names as its bundle."""
        self._named_by: dict[str, set[str]] = {}

    # -- what watches show

    def put_group(self, gang: Gang) -> None:
        """A PodGroup as it is now."""
        if self._objects.get(gang.id) != gang:
            self._objects[gang.id] = gang
            self._touch(gang.id)

    def drop_group(self, gang_id: str) -> None:
        """A PodGroup was deleted."""
        if self._objects.pop(gang_id, None) is not None:
            self._touch(gang_id)

    def list_groups(self, origin: GangOrigin, gangs: Iterable[Gang]) -> None:
        """These are all PodGroups of one API."""
        listed = {gang.id: gang for gang in gangs}
        prefix = f"{origin.value}/"
        for gang_id in [each for each in self._objects if each.startswith(prefix)]:
            if gang_id not in listed:
                self.drop_group(gang_id)
        for gang in listed.values():
            self.put_group(gang)

    def put_pod(self, pod: Pod) -> None:
        """A pod as it is now, whether it names a gang or not."""
        uid, group = pod.metadata.uid, named_group(pod)
        known = self._named.get(uid)
        if known is not None and known != group:
            self.drop_pod(uid)
        if isinstance(group, TwoGroups):
            self._wrong[uid] = group.message
        elif group is not None:
            before = self._pods.get(uid)
            self._named[uid], self._pods[uid] = group, pod
            if before is None or not _alike(before, pod):
                self._members.setdefault(group.id, set()).add(uid)
                self._touch(group.id)

    def drop_pod(self, uid: str, *, succeeded: bool = False) -> None:
        """A pod is gone, or has ended; one that ended well may count for its gang's minimum for as
        long as other pods of the gang are there."""
        self._wrong.pop(uid, None)
        group, pod = self._named.pop(uid, None), self._pods.pop(uid, None)
        if group is None or pod is None:
            return
        members = self._members[group.id]
        members.discard(uid)
        if succeeded:
            status = replace(pod.status, phase="Succeeded")
            self._succeeded.setdefault(group.id, {})[uid] = replace(pod, status=status)
        if not members:
            del self._members[group.id]
            self._succeeded.pop(group.id, None)
        self._touch(group.id)

    def list_pods(self, pods: Sequence[Pod]) -> Slices[None]:
        """These are all pods that have not ended and name a gang."""
        listed = {pod.metadata.uid for pod in pods}
        yield from for_each({*self._named, *self._wrong} - listed, self.drop_pod)
        yield from for_each(pods, self.put_pod)

    def touch_all(self) -> None:
        """Every gang has changed for somebody who forgot all of them."""
        self.changed |= {*self._members, *self._objects}

    # -- what there is

    def populated(self) -> tuple[str, ...]:
        """The ids of all gangs that a pod names."""
        return tuple(self._members)

    @staticmethod
    def names_gang(pod: Pod) -> bool:
        """Whether the pod names a gang, whether a watch has shown it or not."""
        return named_group(pod) is not None

    def gang_of(self, uid: str) -> str:
        """The id of the gang that the pod names; empty where it is not known to name one."""
        group = self._named.get(uid)
        return "" if group is None else group.id

    def group_of(self, uid: str) -> Gang | None:
        """The gang that the pod names, as its PodGroup says it; None where none was shown."""
        return self._objects.get(self.gang_of(uid))

    def wrong(self, uid: str) -> str:
        """Why the pod is in no gang though it names two; empty otherwise."""
        return self._wrong.get(uid, "")

    def pod(self, uid: str) -> Pod | None:
        """The member as it was shown last."""
        return self._pods.get(uid)

    def bundle(self, gang_id: str, *, started: bool | None = None) -> GangBundle:
        """The gang with those that it starts together with. `started` says that they did once, or
        that they did not; None = nobody knows."""
        ids = self._joined(gang_id)
        found: GangCatalog = read_gangs(
            self._pods_of(ids), [self._objects[each] for each in ids if each in self._objects],
            self._bar,
        )  # fmt: skip
        gangs = tuple(
            _as_started(self._with_early(found.gangs[each]), started=started)
            for each in sorted(ids) if each in found.gangs
        )  # fmt: skip
        absent = tuple(sorted(each.partition("/")[2] for each in ids - found.gangs.keys()))
        waiting = (member.pod for members in gangs for member in members.waiting)
        return GangBundle(
            ids=ids, gangs=gangs, absent=absent, refused=found.refused,
            requests_cards=any(map(self._requests_cards, waiting)), started=bool(started),
        )  # fmt: skip

    def _pods_of(self, ids: Iterable[str]) -> list[Pod]:
        """The members of these gangs in the order of their names, as every process has it."""
        pods = [self._pods[uid] for each in ids for uid in self._members.get(each, ())]
        ended = [pod for each in ids for pod in self._succeeded.get(each, {}).values()]
        return sorted((*pods, *ended), key=lambda pod: (pod.metadata.namespace, pod.name))

    def _with_early(self, members: GangMembers) -> GangMembers:
        """Members without cards may have a node before all others: kube-scheduler does not call an
        extender for them. Alone they do not make a start; they count as waiting, first of all."""
        early = members.bound
        if not early or any(self._requests_cards(member.pod) for member in early):
            return members
        return replace(members, bound=(), waiting=(*early, *members.waiting))

    # -- bundles

    def _touch(self, gang_id: str) -> None:
        names = self._named_from(gang_id)
        before = self._names.get(gang_id, frozenset())
        self.changed |= {gang_id} if before == names else {gang_id, *before, *names}
        for other in before - names:
            self._named_by[other].discard(gang_id)
            if not self._named_by[other]:
                del self._named_by[other]
        for other in names - before:
            self._named_by.setdefault(other, set()).add(gang_id)
        if names:
            self._names[gang_id] = names
        else:
            self._names.pop(gang_id, None)

    def _named_from(self, gang_id: str) -> frozenset[str]:
        """The bundle as the gang's own object and pods write it."""
        gang = self._objects.get(gang_id)
        if gang is None and gang_id in self._members:
            gang = read_gangs(self._pods_of([gang_id]), ()).gangs[gang_id].gang
        if gang is None:
            return frozenset()
        return frozenset(f"{gang.origin.value}/{key}" for key in gang.bundle) - {gang_id}

    def _joined(self, gang_id: str) -> frozenset[str]:
        joined, left = {gang_id}, [gang_id]
        while left:
            each = left.pop()
            more = {*self._names.get(each, ()), *self._named_by.get(each, ())} - joined
            joined |= more
            left += more
        return frozenset(joined)


def _alike(one: Pod, other: Pod) -> bool:
    """Whether a pod means the same to its gang: kubelet and kube-scheduler write much more into its
    status than that, and each of a gang's thousands of pods would have all of them read again."""
    return (
        one.spec == other.spec and one.status.phase == other.status.phase
        and replace(one.metadata, resource_version=other.metadata.resource_version)
        == other.metadata
    )  # fmt: skip


def _priority(members: GangMembers) -> int:
    if members.gang.priority is not None:
        return members.gang.priority
    return max((member.pod.spec.priority or 0 for member in members.waiting), default=0)


def _created(members: GangMembers) -> str:
    stamps = (member.pod.metadata.creation_timestamp or "" for member in members.waiting)
    return members.gang.created or min(stamps, default="")


def _as_started(members: GangMembers, *, started: bool | None) -> GangMembers:
    """A gang that is not known to have started, of which fewer pods have a node than its minimum
    while all the others are there: a scheduler ended in the middle of its start, or somebody else
    gave them their nodes. Its members do not go one by one, whatever its policy is after a start.
    Where others are gone and nobody knows, it has started, and they have ended since."""
    gang, bound = members.gang, len(members.bound)
    if gang.match is not MatchPolicy.ONCE or started or not 0 < bound < gang.min:
        return members
    if bound + len(members.waiting) < gang.min and started is None:
        return members
    return replace(members, gang=replace(gang, match=MatchPolicy.PRESENT))
