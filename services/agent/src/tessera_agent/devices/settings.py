"""What can be set of how cards are watched and published."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from tessera_runtime.kube.settings import Seconds
from tessera_schema.annotation_keys import NODE_SETTINGS


class HealthSettings(Struct, frozen=True, kw_only=True):
    """When a card is taken away, and when it comes back."""

    poll_s: Seconds = 1.0
    """Seconds between polls: a fault is published this soon."""
    patience_s: Seconds = 15.0
    """Seconds that a card may be silent before it is taken away: a driver that is busy resetting
    one card may keep all waiting for ten."""
    recover_polls: Annotated[int, Meta(ge=0)] = 60
    """Good polls in a row after which a card takes pods again; 0 = never, as device plugins do."""
    forget_s: Seconds = 3600.0
    """Seconds that a card which is gone stays listed, unhealthy, before it is dropped."""
    ignored_codes: tuple[int, ...] = ()
    """Codes of faults (XIDs) to ignore, besides those that programs bring upon themselves."""


class NodeSettingsSource(Struct, frozen=True, kw_only=True):
    """Where settings of cards, node by node, are read from."""

    namespace: str = "tessera-system"
    """Namespace of the ConfigMap."""
    name: str = NODE_SETTINGS
    """Its name."""
    wait_s: Seconds = 10.0
    """Seconds after which an agent that never read it publishes the cards all the same, and says
    so. What was read once is kept on the node."""


class InventorySettings(Struct, frozen=True, kw_only=True):
    """What is published about the node's cards."""

    slots: Annotated[int, Meta(gt=0)] = 100
    """Containers that may share a card, where the vendor's plugin does not say (HAMi:
    deviceSplitCount). Memory ends sooner, so the default is generous."""
    write_s: Seconds = 10.0
    """Seconds between two writes of the node's annotation; what takes capacity away never waits."""
    verify_s: Seconds = 60.0
    """Seconds between reads of the node, in case another client changed the annotation."""
    publish_s: Seconds = field(default=30.0, name="tell_s")
    """Seconds between two publications of an unchanged state on the message bus."""
    leave_to_others: bool = True
    """Whether cards are kept off new pods while a device plugin or DRA driver that would hand out
    the same cards runs on the node."""
    advertise: bool = True
    """Whether resource names of the vendor's dialects that no plugin advertises on the node are put
    there, so that kube-scheduler lets pods that ask for them wait for it; off removes Tessera's.
    """
    kubelet_folder: str = "/var/lib/kubelet"
    """Where such plugins are looked for, and kubelet itself."""
