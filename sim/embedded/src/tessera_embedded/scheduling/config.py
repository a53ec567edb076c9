"""What kube-scheduler's own configuration file says, as far as it is obeyed here."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

_KIND: Final = "KubeSchedulerConfiguration"


class BadSchedulerConfiguration(ValueError):
    """The file makes no sense; the message names the field."""


class Managed(Struct, frozen=True, rename="camel"):
    """A resource that an extender looks after."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """One extender. A verb that is empty is not called."""

    url_prefix: str = msgspec.field(name="urlPrefix")
    filter_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    preempt_verb: str = ""
    weight: int = 1
    http_timeout: str = msgspec.field(name="httpTimeout", default="5s")
    node_cache_capable: bool = False
    managed_resources: tuple[Managed, ...] = ()
    """Pods that ask for none of these are not its business; none given = all pods are."""
    ignorable: bool = False

    @property
    def timeout_s(self) -> float:
        """Deadline of one call in seconds."""
        return seconds(self.http_timeout)


class SchedulerProfile(Struct, frozen=True, rename="camel"):
    """A name that pods may give as their scheduler."""

    scheduler_name: str = "default-scheduler"


class Configuration(Struct, frozen=True, kw_only=True, rename="camel"):
    """The file."""

    kind: str = ""
    profiles: tuple[SchedulerProfile, ...] = (SchedulerProfile(),)
    extenders: tuple[ExtenderConfig, ...] = ()
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10

    @property
    def names(self) -> frozenset[str]:
        """The schedulers that this one is."""
        return frozenset(p.scheduler_name for p in self.profiles)

    @property
    def ignored(self) -> frozenset[str]:
        """Resources that nodes need not have."""
        return frozenset(
            m.name for e in self.extenders for m in e.managed_resources if m.ignored_by_scheduler
        )


def read_configuration(text: bytes) -> Configuration:
    """A configuration from YAML or JSON. Raises BadConfiguration."""
    try:
        read = msgspec.yaml.decode(text, type=Configuration)
        for extender in read.extenders:
            seconds(extender.http_timeout)
    except (msgspec.DecodeError, ValueError) as e:
        raise BadSchedulerConfiguration(f"scheduler configuration: {e}") from e
    if read.kind != _KIND:
        raise BadSchedulerConfiguration(f"kind: {read.kind!r}: write {_KIND}")
    return read


def seconds(text: str) -> float:
    """Go's spelling of a duration, such as 500ms, 30s, 1m. Raises ValueError."""
    for unit, size in (("ms", 0.001), ("s", 1.0), ("m", 60.0)):
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdecimal():
            return float(number) * size
    raise ValueError(f"duration {text!r}: write a number with ms, s or m")
