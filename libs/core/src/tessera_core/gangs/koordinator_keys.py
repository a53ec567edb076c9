"""Koordinator's keys of a gang, on a PodGroup or, where there is none, on the pods themselves.

Values that make no sense are as if they were not written, which is Koordinator's own rule; each of
them is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from tessera_core.gangs.durations import seconds_of
from tessera_core.gangs.gang import Gang, MatchPolicy
from tessera_schema.kube import ObjectMeta, Pod

PATIENCE_S: Final = 600.0
_PREFIX: Final = "gang.scheduling.koordinator.sh/"
_OLD_PREFIX: Final = "pod-group.scheduling.sigs.k8s.io/"
_MATCHES: Final = {
    "once-satisfied": MatchPolicy.ONCE,
    "only-waiting": MatchPolicy.ARRIVING,
    "waiting-and-running": MatchPolicy.PRESENT,
}
_decode_groups: Final = msgspec.json.Decoder(list[str]).decode
_decode_topology: Final = msgspec.json.Decoder(dict[str, object]).decode


def with_keys(gang: Gang, meta: ObjectMeta, where: str) -> Gang:
    """The gang with what these annotations say of it beyond its minimum. `where` stands before the
    fields in messages."""
    keys = _Keys(meta.annotations, where)
    total = keys.total()
    made = replace(
        gang, patience_s=keys.patience(), match=keys.match(), bundle=keys.bundle(gang.key),
        total=max(total, gang.min), problem=gang.problem or keys.gathered(),
    )  # fmt: skip
    keys.check_mode()
    return replace(made, warnings=(*gang.warnings, *keys.warnings))


class _Keys:
    """The annotations of one gang, and what was wrong in those that were read."""

    def __init__(self, notes: Mapping[str, str], where: str) -> None:
        self._notes = notes
        self._where = where
        self.warnings: list[str] = []

    def patience(self) -> float:
        text = self._notes.get(_PREFIX + "waiting-time", "")
        seconds = seconds_of(text)
        if text and not seconds:
            self._ignored(_PREFIX + "waiting-time", "write a duration such as 600s")
        return seconds or PATIENCE_S

    def match(self) -> MatchPolicy:
        keys = (_PREFIX + "match-policy", _OLD_PREFIX + "match-policy")
        key = next((key for key in keys if key in self._notes), "")
        if key and self._notes[key] not in _MATCHES:
            self._ignored(key, f"write {', '.join(_MATCHES)}")
        return _MATCHES.get(self._notes.get(key, ""), MatchPolicy.ONCE)

    def bundle(self, own: str) -> tuple[str, ...]:
        """Keys of the gangs that start together; the gang alone where no list is written."""
        if _PREFIX + "groups" not in self._notes:
            return (own,)
        try:
            names = _decode_groups(self._notes[_PREFIX + "groups"])
        except msgspec.DecodeError:
            names = [""]
        if not all(name.count("/") == 1 and all(name.split("/")) for name in names):
            self._ignored(_PREFIX + "groups", 'write a JSON list such as ["ns/a", "ns/b"]')
            return (own,)
        return tuple(sorted({*names, own}))

    def total(self) -> int:
        key = _PREFIX + "total-number"
        total = _whole(self._notes.get(key, ""))
        if total is None and key in self._notes:
            self._ignored(key, "write a whole number")
        return total or 0

    def check_mode(self) -> None:
        key = _PREFIX + "mode"
        mode = self._notes.get(key, "Strict")
        if mode == "NonStrict":
            self.warnings.append(
                f"{self._field(key)}: NonStrict: is held as Strict: members that wait for others "
                "hold no cards"
            )
        elif mode != "Strict":
            self._ignored(key, "write Strict or NonStrict")

    def gathered(self) -> str:
        """The problem of a gang that has to lie in one part of the network; empty for none."""
        key = _PREFIX + "network-topology-spec"
        spec = self._notes.get(key, "")
        if not spec:
            return ""
        try:
            strategies = _decode_topology(spec).get("gatherStrategy")
        except msgspec.DecodeError:
            return f"{self._field(key)}: {spec}: no JSON object: write one, or leave it out"
        if "MustGather" not in str(strategies):
            return ""
        return (
            f"{self._field(key)}: MustGather: trees of the network are not read: write "
            "PreferGather, or leave it out"
        )

    def _field(self, key: str) -> str:
        return f"{self._where}metadata.annotations[{key}]"

    def _ignored(self, key: str, remedy: str) -> None:
        self.warnings.append(
            f"{self._field(key)}: {self._notes[key]}: counts as not written: {remedy}"
        )


def minimum_of(pod: Pod) -> tuple[int, str] | None:
    """The minimum that the pod itself writes, and the field; None where it writes none that makes
    sense."""
    for metas, name, key in (
        (pod.metadata.annotations, "annotations", _PREFIX + "min-available"),
        (pod.metadata.labels, "labels", _OLD_PREFIX + "min-available"),
    ):
        least = _whole(metas.get(key, ""))
        if least is not None:
            return least, f"pod {pod.name}: metadata.{name}[{key}]"
    return None


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else None
