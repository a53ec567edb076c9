"""What is measured and held is kept up to date change by change; it is what everything together
comes to."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from tessera_core.quota.accounting import QuotaAccounting
from tessera_core.quota.allowance import QuotaUsage
from tessera_core.quota.status import Measured
from tessera_core.reports.agents import AgentReports
from tessera_core.trust.messages import MessageSigner
from tessera_quota.usage import UsageListener
from tessera_runtime.bus.api import Message
from tessera_schema import subjects
from tessera_schema.grants import Grant, Share
from tessera_schema.messages.device_reports import CardUse, ContainerUse, NodeUsage, encode
from tessera_schema.messages.envelope import Envelope
from tessera_schema.quotas import Limit
from tessera_testing.builders import a_card

SPEAKER = MessageSigner(bytes(range(32)))
NODES, STALE_S, FORGOTTEN_S = ("n0", "n1", "n2"), 30.0, 600.0
CARD = {node: a_card(f"GPU-{node}", vendor="nvidia", mib=81920) for node in NODES}


def grant(node: str, number: int) -> Grant:
    share = Share(
        container="c", position=0, vendor="nvidia", dialect="hami", card=CARD[node].id, index=0,
        memory_bytes=2**30, cores_percent=25,
    )  # fmt: skip
    uid = f"{node}-{number}"
    return Grant(uid=uid, namespace=f"team-{number}", name=uid, node=node, shares=(share,))


GRANTS = {each.uid: each for node in NODES for number in range(3) for each in [grant(node, number)]}


class Step(Struct, frozen=True):
    """One node reports these pods, by number: memory and cores; then time passes."""

    node: str
    uses: dict[int, tuple[int, float]]
    then_s: float


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(NODES),
        st.dictionaries(
            st.integers(0, 2), st.tuples(st.integers(0, 2**30), st.floats(0, 100)), max_size=3
        ),
        st.sampled_from([0.0, 2.0, 20.0, 31.0, 601.0]),
    ),
    max_size=12,
)  # fmt: skip


class Reports:
    """Nodes that report, and the newest report of each with the time at which it came."""

    def __init__(self) -> None:
        reports = AgentReports("c", {"nvidia"}, lambda *_: None)
        for node in NODES:
            reports.know(node, [CARD[node]], {"nvidia": SPEAKER.public})
        self.now = 100.0
        self.usage = UsageListener(reports, GRANTS.get, lambda: self.now, STALE_S)
        self.newest: dict[str, tuple[float, Step]] = {}
        self._sequence = 0

    def take(self, step: Step) -> None:
        self._sequence += 1
        containers = tuple(
            ContainerUse(
                namespace=f"team-{n}", pod=f"{step.node}-{n}", uid=f"{step.node}-{n}",
                container="c",
                cards=(CardUse(card=CARD[step.node].id, memory_bytes=mem, cores_percent=cores),),
            )
            for n, (mem, cores) in step.uses.items()
        )  # fmt: skip
        data = encode(
            NodeUsage(
                node=step.node, vendor="nvidia", at=1e9 + self.now, interval_s=2,
                containers=containers,
            )
        )  # fmt: skip
        order = 1, self._sequence
        signed = Envelope(
            id=str(self._sequence), source="/tessera/agent/x", type="t", time="", epoch=order[0],
            sequence=order[1], signature=SPEAKER.sign(order, data),
        )  # fmt: skip
        self.usage.receive(
            Message(subject=subjects.usage("c", step.node), envelope=signed, data=data)
        )
        self.newest[step.node] = self.now, step
        self.now += step.then_s

    def fresh(self) -> list[Step]:
        return [step for at, step in self.newest.values() if self.now - at <= STALE_S]


@given(STEPS)
def test_what_is_measured_is_what_the_newest_reports_say(steps: Sequence[Step]) -> None:
    reports = Reports()
    for step in steps:
        reports.take(step)
        uses = [(step.node, n, *use) for step in reports.fresh() for n, use in step.uses.items()]
        assert reports.usage.namespaces == {f"team-{n}" for _, n, *_ in uses}
        for number in range(3):
            mine = [(memory, cores) for _, n, memory, cores in uses if n == number]
            found = reports.usage.measured(f"team-{number}").get("nvidia", Measured())
            assert found.memory_bytes == sum(memory for memory, _ in mine)
            assert abs(found.cores_percent - sum(cores for _, cores in mine)) < 1e-5
        measured = {uid for uid in GRANTS if reports.usage.last_active(uid) is not None}
        assert measured == {f"{node}-{n}" for node, n, *_ in uses}


@given(STEPS)
def test_what_no_report_measures_any_more_is_forgotten(steps: Sequence[Step]) -> None:
    reports = Reports()
    for step in steps:
        reports.take(step)
    reports.usage.forget()
    left = [(s.node, n) for at, s in reports.newest.values() if reports.now - at <= FORGOTTEN_S
            for n in s.uses]  # fmt: skip
    assert reports.usage.pods == {f"{node}-{n}" for node, n in left}
    for number in range(3):
        assert bool(reports.usage.gpu_seconds(f"team-{number}")) == (number in {n for _, n in left})


GROUPS = st.lists(st.sets(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=4)
CHANGES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 5)), max_size=12)


@given(GROUPS, CHANGES)
def test_what_groups_use_is_what_their_namespaces_use(
    groups: list[set[str]], changes: list[tuple[str, int]]
) -> None:
    limits = [
        Limit(namespace="a", source=f"q{n}", namespaces=tuple(sorted(group)), cards=3)
        for n, group in enumerate(groups)
    ]
    accounting, held = QuotaAccounting(), dict.fromkeys("abcd", 0)
    accounting.set_limits(limits)
    for namespace, cards in changes:
        held[namespace] += cards
        accounting.count(namespace, {("nvidia", "m"): QuotaUsage(cards=cards)})
        for limit in limits:
            used = sum(held[each] for each in limit.group)
            assert accounting.used(limit).cards == used
            assert bool(accounting.own_allowance(limit).over()) == (used > 3)
