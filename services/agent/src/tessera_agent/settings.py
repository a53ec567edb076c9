"""What can be set of an agent. Read once, in `__main__`; each variable is TESSERA_ and the path of
its field, such as TESSERA_HEALTH_POLL_S."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from tessera_runtime.bus.outbox import OutboxSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.service_settings import ServiceSettings


class ReaderSettings(Struct, frozen=True, kw_only=True):
    """How the vendor's cards are read."""

    library: str = ""
    """Path of the vendor's management library; empty = the one that the loader finds. Where a
    vendor's cards are known from the node alone, naming one that speaks NVML adds use and health.
    """
    call_s: float = 5.0
    """Seconds that a poll may take before the driver counts as hanging: a loaded driver may take
    two to answer for eight cards."""
    system_folder: str = "/sys"
    """Where sysfs is mounted."""
    driver: str = ""
    """The driver's version, where it cannot be read; checked against what sharing needs."""
    toolkit: str = ""
    """Version of the vendor's container toolkit, which cannot be read; checked likewise."""


class HealthSettings(Struct, frozen=True, kw_only=True):
    """When a card is taken away, and when it comes back."""

    poll_s: float = 1.0
    """Seconds between polls: a fault is published this soon."""
    patience_s: float = 15.0
    """Seconds that a card may be silent before it is taken away: a driver that is busy resetting
    one card may keep all waiting for ten."""
    recover_polls: int = 60
    """Good polls in a row after which a card takes pods again; 0 = never, as device plugins do."""
    forget_s: float = 3600.0
    """Seconds that a card which is gone stays listed, unhealthy, before it is dropped."""
    ignored_codes: tuple[int, ...] = ()
    """Codes of faults (XIDs) to ignore, besides those that programs bring upon themselves."""


class InventorySettings(Struct, frozen=True, kw_only=True):
    """What is published about the node's cards."""

    slots: int = 100
    """Containers that may share a card, where the vendor's plugin does not say (HAMi:
    deviceSplitCount). Memory ends sooner, so the default is generous."""
    write_s: float = 10.0
    """Seconds between two writes of the node's annotation; what takes capacity away never waits."""
    verify_s: float = 60.0
    """Seconds between looks at the node, in case somebody else changed the annotation."""
    tell_s: float = 30.0
    """Seconds between two tellings of an unchanged state to the message bus."""
    leave_to_others: bool = True
    """Whether cards are kept off new pods while a device plugin or DRA driver that would hand out
    the same cards runs on the node."""
    advertise: bool = True
    """Whether resource names of the vendor's dialects that nobody else advertises on the node are
    put there, so that kube-scheduler lets pods that ask for them wait for it; off takes ours away.
    """
    kubelet_folder: str = "/var/lib/kubelet"
    """Where such plugins are looked for, and kubelet itself."""


class UsageSettings(Struct, frozen=True, kw_only=True):
    """How containers are measured."""

    interval_s: float = 2.0
    """Seconds between looks: a contended card is to be decided upon within five."""
    correct_s: float = 0.5
    """Seconds within which hooks whose cores are limited hear what the driver measured of them: for
    so long their own figures may be wrong. The driver is polled as often while one runs, where
    health does not have it polled more often anyway."""
    slack_mib: int = 256
    """MiB that a process may hold beyond what the hook charged and measured, before that counts as
    use that escaped it: kernels and libraries are loaded between measurements."""
    context_mib: int = 768
    """MiB that a process's first context may take besides: the driver allots some 150 on small
    cards and up to 700 on the largest, before there is anything to measure it with."""
    overhead_mib: int = 2048
    """MiB that a process is believed to need for contexts and code, whatever its file says."""
    proc_folder: str = "/proc"
    """Where the node's processes are shown."""


class LendingSettings(Struct, frozen=True, kw_only=True):
    """Idle cores, lent on the card (docs/lending.md)."""

    enabled: bool = True
    """Whether idle cores are lent, and whether containers of low priority wait for others."""
    tick_s: float = 0.1
    """Seconds between looks: an owner that launches has its cores back with the next one."""
    loan_s: float = 1.0
    """Seconds after which a loan, or a hold, that is not renewed ends by itself."""
    idle_s: float = 0.5
    """Seconds without a launch after which all of a container's cores are lent."""
    active_s: float = 3.0
    """Seconds after a launch for which a container holds those of lower priority."""
    most_percent: float = 100.0
    """Of a card, up to which a container may be lent to where nothing else says; below what it
    was granted, nothing is."""
    bounds_s: float = 90.0
    """Seconds for which the rebalancer's bounds are believed: it tells them again every 30."""


class ResizeSettings(Struct, frozen=True, kw_only=True):
    """Limits of running containers, changed by a later grant or by their quota."""

    look_s: float = 1.0
    """Seconds between looks while nothing is heard: memory is given back this soon."""
    patience_s: float = 60.0
    """Seconds for which memory that is in use stays allowed after less was granted; then no more
    is allowed than was granted, and what is above shows as such."""
    throttle_s: float = 600.0
    """Seconds for which cores stay lowered after the quota monitor was heard last; it tells again
    every minute."""


class NriSettings(Struct, frozen=True, kw_only=True):
    """The container runtime, which asks about every container that it creates."""

    socket: Path = Path("/var/run/nri/nri.sock")
    """Where the runtime listens to plugins."""
    name: str = ""
    """What the runtime calls this plugin, and requires (`required_plugins`); empty = `tessera`
    where the vendor's containers get their cards here, else `tessera-<vendor>`: an agent that only
    looks on must not pass for one that limits. Agents of two such vendors on one node need names of
    their own."""
    index: str = "10"
    """Two digits: plugins are asked in this order."""
    exempt_namespaces: tuple[str, ...] = ("kube-system", "tessera-system")
    """Namespaces whose containers see cards without a grant, as their own variables say: agents
    and the cluster's own monitoring. Whoever may create pods there has the cards."""
    keep_files_s: float = 10.0
    """Seconds that a container's files outlive it: its last use is read within them."""


class CardDelivery(StrEnum):
    """How containers get the vendor's cards."""

    RUNTIME = "runtime"
    """The container runtime asks about each container by name (NRI)."""
    ALLOCATE = "allocate"
    """Kubelet asks, through a device plugin, where the runtime has no NRI. It does not say for
    whom, so the scheduler lets no two pods that ask for as much start on the node at once."""


class HandoverMethod(StrEnum):
    """How a device plugin hands a card to a container."""

    CDI = "cdi"
    """By its name, which the runtime looks up in the specifications that the vendor's toolkit
    wrote, with UUIDs for names."""
    NODES = "nodes"
    """As device nodes; the vendor's runtime adds the driver's files."""
    ENV = "env"
    """By the variable that the vendor's runtime reads. One that the pod has from a ConfigMap stands
    in its place."""


class PluginSettings(Struct, frozen=True, kw_only=True):
    """The device plugin, where kubelet asks for cards (TESSERA_GIVING=allocate)."""

    cards: HandoverMethod = HandoverMethod.CDI
    """How cards are handed over: `cdi`, `nodes` or `env`. A pod's own variable cannot give it a
    card that comes by name, where the vendor's runtime is not the one that runs it."""
    wait_s: float = 5.0
    """Seconds for which the pod that kubelet asks for may be unknown here, or two that could be
    meant: kubelet admits no other pod meanwhile, and one that is refused has failed for good."""
    call_s: float = 5.0
    """Seconds in which kubelet says which container has which ids."""
    look_s: float = 2.0
    """Seconds between looks at what became of containers while nothing is heard of them."""


class StoredKeySettings(Struct, frozen=True, kw_only=True):
    """The public keys that grants are verified with."""

    namespace: str = "tessera-system"
    """Where the scheduler publishes them."""
    wait_s: float = 2.0
    """Seconds that the runtime is kept waiting for them when the agent starts: what runs already is
    told but once. Kept on the node, they are there at once but for the first time."""


class AgentSettings(ServiceSettings, frozen=True, kw_only=True):
    """One vendor's agent on one node."""

    node: str
    """The node's name in Kubernetes."""
    vendor: str
    """Whose cards this agent looks after."""
    folder: str = "/var/lib/tessera"
    """Where the limits and usage files of containers are kept."""
    giving: CardDelivery = CardDelivery.RUNTIME
    """`runtime`, or `allocate` on nodes whose container runtime has no NRI. For a vendor whose own
    device plugin gives its cards nothing but `runtime` will do."""
    reader: ReaderSettings = ReaderSettings()
    health: HealthSettings = HealthSettings()
    inventory: InventorySettings = InventorySettings()
    usage: UsageSettings = UsageSettings()
    lending: LendingSettings = LendingSettings()
    resize: ResizeSettings = ResizeSettings()
    nri: NriSettings = NriSettings()
    plugin: PluginSettings = PluginSettings()
    keys: StoredKeySettings = StoredKeySettings()
    outbox: OutboxSettings = OutboxSettings(capacity=2000)
    """Twenty minutes of usage and as many other messages: some 10 MB with 50 containers."""
    http: HttpSettings = HttpSettings()
    """Health and metrics; on a node any free port unless told otherwise."""

    def check(self) -> None:
        """Raises BadSettings."""
        for section, names in _POSITIVE.items():
            for name in names:
                value = getattr(getattr(self, section), name)
                if value <= 0:
                    raise BadSettings(f"{section}.{name}: {value}: write a number above 0")
        if not re.fullmatch("[0-9]{2}", self.nri.index):
            raise BadSettings(f'nri.index: "{self.nri.index}": write two digits, such as 10')
        if self.lending.loan_s < 2 * self.lending.tick_s:
            raise BadSettings(
                f"lending.loan_s: {self.lending.loan_s:g}: write at least twice lending.tick_s "
                f"({self.lending.tick_s:g}), or loans would end between two looks"
            )
        if self.plugin.wait_s > MOST_WAIT_S:
            raise BadSettings(
                f"plugin.wait_s: {self.plugin.wait_s:g}: write {MOST_WAIT_S:g} or less: kubelet "
                "admits no other pod while it waits"
            )
        if self.health.recover_polls < 0:
            raise BadSettings(f"health.recover_polls: {self.health.recover_polls}: write 0 or more")


MOST_WAIT_S: Final = 15.0
"""Kubelet's questions are cut off a few seconds later."""
_POSITIVE: Final = {
    "reader": ("call_s",),
    "health": ("poll_s", "patience_s", "forget_s"),
    "inventory": ("slots", "write_s", "verify_s", "tell_s"),
    "usage": ("interval_s", "correct_s", "slack_mib", "context_mib", "overhead_mib"),
    "resize": ("look_s", "patience_s", "throttle_s"),
    "lending": ("tick_s", "loan_s", "idle_s", "active_s", "bounds_s"),
    "nri": ("keep_files_s",),
    "plugin": ("wait_s", "call_s", "look_s"),
}
