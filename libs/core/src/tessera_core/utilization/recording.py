"""The history that a report is made of: pods that held shares, and digests of what they used.

A recording is a file of lines, each a JSON object of one of three kinds. The first line is the
header. A pod's line comes before the digests that name it, and again when what it says changes.
Prometheus gives the same digests (`tessera_cli.report.prometheus`). A pod is known by namespace and
name: the next pod of a StatefulSet's name is the same holder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from tessera_schema.json_codec import decoder
from tessera_schema.kube import Quantity

RECORDING_VERSION: Final = 1
MOST_LINE: Final = 1 << 20
"""Bytes of a line: a pod with 100 containers has a tenth of it."""
PodName = tuple[str, str]
"""Namespace and name."""


class RecordingHeader(Struct, frozen=True, kw_only=True, tag="recording", tag_field="what"):
    """The first line."""

    version: int = RECORDING_VERSION
    cluster: str = ""
    period_s: float = 0
    """Of the digests."""
    note: str = ""
    """Where it comes from, if not from a cluster."""


class WrittenContainer(Struct, frozen=True, kw_only=True):
    """A container's limits as its manifest says them."""

    name: str
    limits: dict[str, Quantity] = {}
    init: bool = False
    sidecar: bool = False


class RecordedShare(Struct, frozen=True, kw_only=True):
    """One share of the pod's grant."""

    container: str
    card: str
    memory_bytes: int
    card_bytes: int = 0
    """What can be granted of the card; 0 = not known."""
    resizable: bool = False
    """Whether a live resize can change it."""


class HolderPod(Struct, frozen=True, kw_only=True, tag="pod", tag_field="what"):
    """A pod that holds shares."""

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    owner_kind: str = ""
    """Of the topmost owner that is known: Deployment rather than ReplicaSet. Empty = the pod has no
    owner, or nobody knows it any more."""
    owner: str = ""
    started: float = 0
    """Unix time."""
    scheduler: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    """Those by which it asks for cards."""
    containers: tuple[WrittenContainer, ...] = ()
    """Empty = its manifest is not known."""
    shares: tuple[RecordedShare, ...] = ()

    @property
    def key(self) -> PodName:
        """By which digests name it."""
        return self.namespace, self.name


class UseDigest(Struct, frozen=True, kw_only=True, tag="use", tag_field="what"):
    """What one container did with its share of one card within a period. Times are seconds."""

    until: float
    """Unix time of the period's end."""
    period_s: float
    namespace: str
    pod: str
    container: str
    card: str
    model: str = ""
    part: float
    """Of the card, 0 to 1: the larger of what it was granted of memory and of cores."""
    granted_bytes: int
    held_s: float
    """For which it held the share."""
    measured_s: float = 0
    """For which it was measured."""
    gpu_s: float = 0
    """GPU time: seconds of the whole card."""
    idle_s: float = 0
    """Of the measured time, intervals without GPU time."""
    throttled_s: float = 0
    """Of the measured time, in which launches were held back."""
    byte_s: float = 0
    """Memory in use, summed over the measured time."""
    peak_bytes: int = 0
    """The most memory of any moment that was measured, or that the hook saw."""
    gaps: tuple[str, ...] = ()
    """Why what was measured may not be all (`ContainerUse.gaps`)."""


RecordingLine = RecordingHeader | HolderPod | UseDigest

_encode: Final = msgspec.json.Encoder().encode
_decode: Final[Callable[[bytes], RecordingLine]] = decoder(RecordingLine)

_NUMBERS: Final = (
    "until", "period_s", "part", "granted_bytes", "held_s", "measured_s", "gpu_s", "idle_s",
    "throttled_s", "byte_s", "peak_bytes",
)  # fmt: skip


class BadRecording(ValueError):
    """A recording that cannot be read; the message names line, value and remedy."""


def encode_line(line: RecordingLine) -> bytes:
    """The line with its end."""
    return _encode(line) + b"\n"


def read_lines(lines: Iterable[bytes]) -> Iterator[RecordingLine]:
    """The lines of a recording. Raises BadRecording, also where the header is not there.

    A last line without its end is left out: the process that wrote it was killed.
    """
    number = 0
    for number, raw in enumerate(lines, 1):
        if len(raw) > MOST_LINE:
            raise BadRecording(f"line {number}: {len(raw)} bytes: a line has at most {MOST_LINE}")
        if not raw.endswith(b"\n"):
            return
        try:
            line = _decode(raw)
        except msgspec.DecodeError as e:
            raise _no_recording(number, raw, f"{e}") from e
        why = _wrong(line, first=number == 1)
        if why:
            raise _no_recording(number, raw, why)
        yield line
    if not number:
        raise BadRecording("it is empty: give a file that `tessera report --record` wrote")


def _wrong(line: RecordingLine, *, first: bool) -> str:
    if first != isinstance(line, RecordingHeader):
        return "the first line alone is the header"
    if isinstance(line, RecordingHeader) and line.version != RECORDING_VERSION:
        return f"version {line.version}, this release reads {RECORDING_VERSION}"
    if isinstance(line, UseDigest):
        odd = next((f for f in _NUMBERS if not 0 <= getattr(line, f) < float("inf")), "")
        return f"{odd} {getattr(line, odd)} is no number from 0 up" if odd else ""
    return ""


def _no_recording(number: int, raw: bytes, why: str) -> BadRecording:
    start = raw[:60].decode(errors="replace").strip()
    return BadRecording(
        f"line {number}: {start!r}: {why}: give a file that `tessera report --record` wrote"
    )
