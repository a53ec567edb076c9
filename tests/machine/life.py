"""What users, nodes, operators and kube-scheduler do, and should not do."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tessera_schema.cards import MIB
from tessera_schema.resizes import RESIZE_KEY, Resize, ShareChange, encode_resize
from tests.machine.cluster import NAMESPACES, SHAPES
from tests.machine.placing import Offer
from tests.machine.walking import Walk, sure, which_of


class Life(Walk):
    """A cluster in which nothing fails."""

    # -- users

    @rule(name=which_of, namespace=st.sampled_from(NAMESPACES), shape=st.sampled_from(SHAPES))
    def a_pod_is_made(self, name: int, namespace: str, shape: dict[str, Any]) -> None:
        async def step() -> None:
            self.create(f"p{name}", namespace, shape)

        self.do(step())

    @rule(which=which_of, how=st.sampled_from(("deleted", "forced", "succeeds", "fails")))
    def a_pod_ends(self, which: int, how: str) -> None:
        async def step() -> None:
            pods = list(self.world.cluster.truth.pods)
            if not pods:
                return
            uid = pods[which % len(pods)]
            node = self.world.cluster.truth.pods[uid].spec.node_name
            if how in ("deleted", "forced"):
                self.world.cluster.delete(uid, 0 if how == "forced" else 30)
            elif node:
                self.world.nodes[node].ends(uid, well=how == "succeeds")

        self.do(step())

    @rule(first=which_of, count=st.integers(2, 8), namespace=st.sampled_from(NAMESPACES))
    def life_goes_on(self, first: int, count: int, namespace: str) -> None:
        """Pods are made, placed and started."""

        async def step() -> None:
            for i in range(first, first + count):
                self.create(f"p{i % 12}", namespace, SHAPES[i % len(SHAPES)])
            await self.schedule_all()
            for node in self.world.nodes.values():
                node.reconcile()

        self.do(step())

    @rule(which=which_of, mib=st.sampled_from((1000, 5000, 9000, 14000)))
    def a_pod_requests_other_amounts(self, which: int, mib: int) -> None:
        async def step() -> None:
            living = [bound.grant for _, bound in self.world.cluster.truth.living()]
            if not living:
                return
            grant = living[which % len(living)]
            share = grant.shares[which % len(grant.shares)]
            change = ShareChange(container=share.container, card=share.card, memory_bytes=mib * MIB)
            note = {RESIZE_KEY: encode_resize(Resize(changes=(change,)))}
            path = self.world.cluster.path(grant.uid)
            self.world.cluster.call("PATCH", path, {"metadata": {"annotations": note}})

        self.do(step())

    # -- nodes

    @rule(which=which_of, all_of_them=sure)
    def nodes_reconcile(self, which: int, all_of_them: bool) -> None:  # noqa: FBT001  (drawn)
        async def step() -> None:
            for node in self.world.nodes.values() if all_of_them else [self.node(which)]:
                node.reconcile()

        self.do(step())

    @rule(which=which_of, how=st.sampled_from(("leaves", "joins", "reaps", "tells")))
    def a_node_changes(self, which: int, how: str) -> None:
        async def step() -> None:
            node = self.node(which)
            match how:
                case "leaves":
                    self.world.cluster.leave(node.name)
                case "joins":
                    self.world.cluster.join(node.name)
                case "reaps":
                    node.reap()
                case _:
                    node.report()

        self.do(step())

    @rule(which=which_of, well=sure, reported=sure, written=sure)
    def a_card_changes(
        self, which: int, well: bool, reported: bool, written: bool  # noqa: FBT001  (drawn)
    ) -> None:  # fmt: skip
        async def step() -> None:
            cluster, node = self.world.cluster, self.node(which)
            cards = list(cluster.cards[node.name])
            card = cards[which % len(cards)]
            if well:
                cluster.unhealthy.discard(card)
            else:
                cluster.ail(card)
            if reported:
                node.report()
            if written:
                cluster.publish(node.name)

        self.do(step())

    # -- kube-scheduler

    @rule(which=which_of, by=which_of, wait_s=st.sampled_from((0.0, 0.0, 0.5, 6.0)))
    def a_pod_is_scheduled(self, which: int, by: int, wait_s: float) -> None:
        self.do(self.schedule(which, by, wait_s))

    @rule(by=which_of)
    def all_pods_are_scheduled(self, by: int) -> None:
        self.do(self.schedule_all(by))

    @rule(which=which_of, by=which_of, long_ago=sure)
    def a_pod_is_only_filtered(
        self, which: int, by: int, long_ago: bool  # noqa: FBT001  (drawn)
    ) -> None:  # fmt: skip
        async def step() -> None:
            placing = self.world.placing
            waiting = list(placing.seen) if long_ago else placing.waiting()
            if waiting:
                self.filter(waiting[which % len(waiting)], by, again=not long_ago)

        self.do(step())

    @rule(which=which_of, by=which_of, times=st.integers(1, 2), elsewhere=st.integers(0, 3))
    def an_offer_of_long_ago_is_bound(
        self, which: int, by: int, times: int, elsewhere: int
    ) -> None:
        async def step() -> None:
            offers, replica = self.world.placing.offers, self.replica(by)
            if offers and replica:
                was = offers[which % len(offers)]
                node = was.node if elsewhere else self.node(by).name
                for _ in range(times):
                    offer = Offer(was.uid, was.namespace, was.name, node)
                    self.world.placing.bind(replica, offer)

        self.do(step())

    @rule(which=st.integers(0, 40), node=which_of)
    def somebody_else_binds_a_pod(self, which: int, node: int) -> None:
        async def step() -> None:
            waiting = self.world.placing.waiting()
            if which < len(waiting):
                cluster = self.world.cluster
                path = cluster.path(waiting[which])
                target = {"apiVersion": "v1", "kind": "Node", "name": self.node(node).name}
                body = {"metadata": {"name": path.rpartition("/")[2]}, "target": target}
                cluster.call("POST", f"{path}/binding", body)

        self.do(step())

    # -- operators

    @rule(mib=st.sampled_from((None, 0, 6000, 12000, 20000)))
    def the_quota_changes(self, mib: int | None) -> None:
        async def step() -> None:
            self.world.cluster.limit(mib)

        self.do(step())
