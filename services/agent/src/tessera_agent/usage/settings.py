"""What can be set of measuring."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from tessera_runtime.kube.settings import Seconds

Mebibytes = Annotated[int, Meta(gt=0)]


class UsageSettings(Struct, frozen=True, kw_only=True):
    """How containers are measured."""

    interval_s: Seconds = 2.0
    """Seconds between measurements: a contended card is to be decided upon within five."""
    publish_s: Annotated[float, Meta(gt=0, le=15)] = 10.0
    """Seconds that one message on the bus covers; what changes by a step is published at once, with
    the measurement that shows it. At most 15: after 30 without a message, a node counts as not
    measured."""
    correct_s: Seconds = 0.5
    """Seconds within which hooks whose cores are limited get what the driver measured of them: for
    so long their own figures may be wrong. The driver is polled as often while one runs, where
    health does not have it polled more often anyway."""
    slack_mib: Mebibytes = 256
    """MiB that a process may hold beyond what the hook charged and measured, before that counts as
    use that escaped it: kernels and libraries are loaded between measurements."""
    context_mib: Mebibytes = 768
    """MiB that a process's first context may take besides: the driver allots some 150 on small
    cards and up to 700 on the largest, before there is anything to measure it with."""
    overhead_mib: Mebibytes = 2048
    """MiB that a process is believed to need for contexts and code, whatever its file says."""
    proc_folder: str = "/proc"
    """Where the node's processes are shown."""
