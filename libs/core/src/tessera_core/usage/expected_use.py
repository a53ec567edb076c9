"""How much GPU time a pod will want of a card: a mean and a variance, from what was measured of it
over hours, and from pods like it while little was measured.

A sample is what the pod wanted in about a minute. Of each pod three sums are kept, which fade over
six hours, and the mean of the last ten minutes: a sample costs the same however many came before.
They are shrunk to a prior that counts as half an hour of samples. The prior comes from pods of the
same owner, else of the same namespace that ask for as much, else of the same namespace, else from
all pods: each of these is shrunk to the next in the same way.

A pod counts from the moment that it holds a share. What it is expected to want decides no grant.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

from msgspec import Struct

WHOLE_PERCENT: Final = 100.0
MOST_CLASSES: Final = 8192
"""Classes of pods (owners, requests, namespaces) that are remembered, about 2 MiB. The one that no
pod was counted in for the longest time is forgotten first."""
_LEAST_HELD: Final = 0.1
"""A container that was held back nearly all the time wanted ten times what it got, at most."""


class ExpectedUseRules(Struct, frozen=True, kw_only=True):
    """How much of the past counts, and how much of other pods. Times in seconds."""

    decay_s: float = 6 * 3600.0
    """Time constant with which a pod's samples fade."""
    recent_s: float = 600.0
    """Time constant of the mean that says what the pod wants just now."""
    recent_part: float = 0.3
    """How much of the expected mean is that one: phases last for minutes to hours."""
    prior_s: float = 1800.0
    """Time of samples that the prior counts as."""
    class_s: float = 7200.0
    """The same of a class's prior; and how much of its time a pod counts for in a class before it
    counts less, so that one long pod is not all that its class is."""
    class_decay_s: float = 86400.0
    """Time constant with which the samples of a class fade."""
    mean_percent: float = 50.0
    """Of pods of which nothing is known at all."""
    deviation_percent: float = 30.0
    """Standard deviation of the same."""
    sample_s: float = 55.0
    """Least time between two samples of a pod: what is sampled is smoothed over about a minute."""
    longest_s: float = 300.0
    """Most time that one sample counts for: what was not measured for longer is not known."""


class ExpectedWant(NamedTuple):
    """GPU time that a pod is expected to want of one card."""

    mean: float
    """Percent of the card."""
    variance: float
    """Percent squared, over minutes."""


class PodTraits(Struct, frozen=True):
    """What makes pods alike."""

    namespace: str = ""
    cores_percent: float = 0
    memory_bytes: int = 0
    owner: str = ""
    """Uid of the controller that made it; empty = nothing is known of one."""

    @property
    def classes(self) -> tuple[Hashable, ...]:
        """From the widest to the narrowest."""
        cores = self.namespace, self.cores_percent
        found = ((), (self.namespace,), cores, (*cores, self.memory_bytes))
        return (*found, (self.namespace, self.owner)) if self.owner else found


class _Sums(Struct, gc=False):
    """Weighted sums of samples, which fade; weights are seconds."""

    at: float
    weight: float = 0.0
    first: float = 0.0
    second: float = 0.0

    def add(self, percent: float, at: float, seconds: float, decay_s: float) -> None:
        keep = math.exp(-max(at - self.at, 0.0) / decay_s)
        self.at = max(at, self.at)
        self.weight = self.weight * keep + seconds
        self.first = self.first * keep + seconds * percent
        self.second = self.second * keep + seconds * percent * percent

    def shrunk(self, prior: _Moments, prior_s: float) -> _Moments:
        weight = self.weight + prior_s
        return _Moments(
            (self.first + prior.first * prior_s) / weight,
            (self.second + prior.second * prior_s) / weight,
        )


class _Moments(NamedTuple):
    first: float
    second: float


class PodSamples(_Sums, gc=False):
    """What was measured of one pod on one card."""

    recent: float = 0.0
    recent_weight: float = 0.0
    """How much of the last minutes was measured, 0 to 1."""


class ExpectedUse:
    """What is expected of pods, and the classes that it comes from."""

    def __init__(self, rules: ExpectedUseRules | None = None) -> None:
        """Nothing was measured yet."""
        self.rules = rules or ExpectedUseRules()
        self._classes: dict[Hashable, _Sums] = {}

    def samples(self, at: float) -> PodSamples:
        """For a pod that holds a share from now on."""
        return PodSamples(at)

    def add(
        self, samples: PodSamples, traits: PodTraits, percent: float, at: float, *, full: bool
    ) -> bool:
        """Count what the pod wanted since its last sample, until `at`. False = too early, late, or
        no number, and nothing has changed. Of a card that is `full`, with several pods at work, a
        sample is the least that the pod wanted, so it lowers nothing."""
        rules = self.rules
        elapsed = at - samples.at
        if not (rules.sample_s <= elapsed < math.inf and math.isfinite(percent)):
            return False
        percent = min(max(percent, 0.0), WHOLE_PERCENT)
        if full:
            percent = max(percent, self.of(samples, traits).mean)
        seconds = min(elapsed, rules.longest_s)
        samples.add(percent, at, seconds, rules.decay_s)
        fade = math.exp(-elapsed / rules.recent_s)
        gain = -math.expm1(-seconds / rules.recent_s)
        samples.recent = samples.recent * fade + percent * gain
        samples.recent_weight = samples.recent_weight * fade + gain
        counts = seconds * min(1.0, rules.class_s / samples.weight)
        for name in traits.classes:
            self._class(name, at).add(percent, at, counts, rules.class_decay_s)
        return True

    def of(self, samples: PodSamples, traits: PodTraits) -> ExpectedWant:
        """What the pod is expected to want."""
        rules = self.rules
        first, second = samples.shrunk(self._shrunk(traits.classes), rules.prior_s)
        mean = first
        if samples.recent_weight > 0:
            recent = samples.recent / samples.recent_weight
            mean += rules.recent_part * samples.recent_weight * (recent - first)
        return ExpectedWant(mean, max(second - first * first, 0.0))

    def of_class(self, namespace: str, cores_percent: float) -> float:
        """Mean of what a pod that is to come is expected to want, where no more is known of it."""
        return self._shrunk(PodTraits(namespace, cores_percent).classes[:3]).first

    @property
    def classes(self) -> int:
        """How many are remembered."""
        return len(self._classes)

    def _shrunk(self, classes: Iterable[Hashable]) -> _Moments:
        rules = self.rules
        mean = rules.mean_percent
        found = _Moments(mean, mean**2 + rules.deviation_percent**2)
        for name in classes:
            sums = self._classes.get(name)
            if sums is not None:
                found = sums.shrunk(found, rules.class_s)
        return found

    def _class(self, name: Hashable, at: float) -> _Sums:
        sums = self._classes.pop(name, None)
        if sums is None:
            sums = _Sums(at)
            if len(self._classes) >= MOST_CLASSES:
                del self._classes[next(iter(self._classes))]
        self._classes[name] = sums  # the last one is the newest
        return sums


def wanted_percent(cores_percent: float, held_percent: float) -> float:
    """GPU time that a container wanted: what it got of the time in which it was not held back."""
    free = max(1 - held_percent / WHOLE_PERCENT, _LEAST_HELD)
    return min(max(cores_percent, 0.0) / free, WHOLE_PERCENT)
