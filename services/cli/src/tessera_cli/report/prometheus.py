"""The history as Prometheus has it, from metrics that agents export anyway.

One instant query a figure and day, so that Prometheus adds up and each answer has one number a
series. Times are counted in steps of a minute (`count_over_time(...[1d:1m])`), means and peaks are
of every scrape. Next to Tessera's own metrics there are those of GPU Manager, whose
`container_request_gpu_*` say what was granted, and of kube-state-metrics, where there is one, which
says whose pods that are gone were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout
from msgspec import Struct

from tessera_cli.errors import CommandError
from tessera_core.utilization.digests import part_of
from tessera_core.utilization.recording import HolderPod, UseDigest
from tessera_schema.cards import MIB, Card
from tessera_schema.json_codec import decoder

_DAY_S: Final = 86_400
_MINUTE_S: Final = 60.0
_QUERY_S: Final = 120.0
_USE: Final = "tessera_agent_container"
_GRANTED: Final = 'container_request_gpu_memory{req_of_gpu_memory="total"}'
_CORES: Final = 'container_request_gpu_utilization{req_of_gpu="total"}'
K = TypeVar("K")
Labels = Mapping[str, str]
Rows = list[tuple[Labels, float]]
ContainerName = tuple[str, str, str]
"""Namespace, pod, container."""


class PrometheusAway(CommandError):
    """Prometheus does not answer, or not as it should; the message says what would do."""


class _Sample(Struct, frozen=True):
    value: tuple[float, str]
    metric: dict[str, str] = {}


class _Data(Struct, frozen=True, rename="camel"):
    result: list[_Sample] = []


class _Answer(Struct, frozen=True):
    status: str
    data: _Data = _Data()
    error: str = ""


_answer: Final = decoder(_Answer)


class PrometheusApi:
    """The HTTP API of one server."""

    def __init__(self, session: ClientSession, url: str, token: str = "") -> None:
        """`url` is the server's, without `/api`; `token` is a bearer token."""
        self._session = session
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def query(self, expression: str, at: float) -> Rows:
        """What an instant query finds; samples that are no number are left out. Raises
        PrometheusAway."""
        form = {"query": expression, "time": f"{at:.3f}", "timeout": f"{_QUERY_S:g}s"}
        try:
            async with self._session.post(
                f"{self._url}/api/v1/query", data=form, headers=self._headers,
                timeout=ClientTimeout(total=_QUERY_S + 10),
            ) as response:  # fmt: skip
                text = await response.read()
                status = response.status
        except (ClientError, TimeoutError, ValueError) as e:
            raise self._away(str(e) or type(e).__name__) from e
        try:
            answer = _answer(text)
        except msgspec.DecodeError as e:
            raise self._away(f"status {status}, and the answer is not Prometheus'") from e
        if answer.status != "success":
            raise self._away(f"{expression}: {answer.error}")
        rows = ((one.metric, float(one.value[1])) for one in answer.data.result)
        return [(labels, number) for labels, number in rows if number == number]  # noqa: PLR0124

    def _away(self, why: str) -> PrometheusAway:
        return PrometheusAway(
            "--prometheus", self._url, why, "give the address of a Prometheus that scrapes "
            "Tessera's agents, such as http://127.0.0.1:9090 after kubectl port-forward",
        )  # fmt: skip


class DayFigures(Struct, kw_only=True):
    """What was found of one day, by name of the figure."""

    until: float
    seconds: float
    rows: dict[str, Rows]
    cards: dict[str, Card]


_FIGURES: Final = {
    "granted": "max_over_time({granted}[{w}])",
    "cores": "max_over_time({cores}[{w}])",
    "held": "count_over_time({granted}[{w}:1m])",
    "last": "max_over_time(timestamp({granted})[{w}:1m])",
    "measured": "count_over_time({use}_cores_percent[{w}:1m])",
    "scrapes": "count_over_time({use}_cores_percent[{w}])",
    "busy": "sum_over_time({use}_cores_percent[{w}])",
    "idle": "count_over_time(({use}_cores_percent == 0)[{w}:1m])",
    "throttled": "sum_over_time({use}_throttled_percent[{w}])",
    "memory": "sum_over_time({use}_memory_bytes[{w}])",
    "peak": "max_over_time({use}_memory_bytes[{w}])",
    "hours": "max_over_time({use}_memory_peak_bytes[{w}])",
    "gaps": "count_over_time({use}_gap[{w}])",
    "cards": "last_over_time(tessera_agent_card_memory_bytes[{w}])",
}
_ADDED: Final = ("measured", "scrapes", "busy", "idle", "throttled", "memory")
"""Figures of a share of which several series add up."""
_OWNERS: Final = (
    'last_over_time(kube_pod_owner{{owner_is_controller="true"}}[{w}])',
    "last_over_time(kube_replicaset_owner[{w}])",
    "last_over_time(kube_job_owner[{w}])",
)


async def read_days(api: PrometheusApi, now: float, days: float) -> list[DayFigures]:
    """The days up to now, oldest first; the first one may be a part of one. Raises
    PrometheusAway."""
    found = []
    left = days * _DAY_S
    while left > 0:
        seconds, until = min(left, _DAY_S), now
        window = f"{max(int(seconds), 60)}s"
        rows = {
            name: await api.query(
                form.format(w=window, use=_USE, granted=_GRANTED, cores=_CORES), until
            )
            for name, form in _FIGURES.items()
        }
        cards = {
            labels["card"]: _card(labels, number) for labels, number in rows["cards"]
            if "card" in labels
        }  # fmt: skip
        found.append(DayFigures(until=until, seconds=seconds, rows=rows, cards=cards))
        now, left = now - seconds, left - seconds
    return found[::-1]


async def read_owners(api: PrometheusApi, now: float, days: float) -> list[HolderPod]:
    """Whose pods were, by kube-state-metrics; nothing where there is none. Raises
    PrometheusAway."""
    window = f"{max(int(days * _DAY_S), 60)}s"
    pods, sets, jobs = [await api.query(form.format(w=window), now) for form in _OWNERS]
    above = {
        **{("ReplicaSet", row["namespace"], row["replicaset"]): row for row, _ in sets},
        **{("Job", row["namespace"], row.get("job_name", "")): row for row, _ in jobs},
    }
    found = []
    for row, _ in pods:
        kind, name = row.get("owner_kind", ""), row.get("owner_name", "")
        parent = above.get((kind, row.get("namespace", ""), name), {})
        if parent.get("owner_kind", "<none>") not in ("", "<none>"):
            kind, name = parent["owner_kind"], parent["owner_name"]
        if {"namespace", "pod"} <= row.keys():
            found.append(HolderPod(
                namespace=row["namespace"], name=row["pod"], uid=row.get("uid", ""),
                owner_kind=kind, owner=name,
            ))  # fmt: skip
    return found


def digests_of(day: DayFigures) -> Iterator[UseDigest]:
    """The day's digests, a share each. What a container was granted of each of several cards is
    taken to be equal parts of what it was granted in all."""
    granted, cores, last = (_most(day, name, _container) for name in ("granted", "cores", "last"))
    held = _sum(day, "held", _container)
    figures = {name: _sum(day, name, _share) for name in _ADDED}
    figures["peak"] = _most(day, "peak", _share)
    for share, peak in _most(day, "hours", _share).items():
        figures["peak"][share] = max(peak, figures["peak"].get(share, 0.0))
    gaps: dict[ContainerName, set[str]] = {}
    for labels, _ in day.rows["gaps"]:
        gaps.setdefault(_share(labels)[0], set()).add(labels.get("gap", ""))
    cards: dict[ContainerName, list[str]] = {}
    for container, card in figures["measured"]:
        cards.setdefault(container, []).append(card)
    for container, minutes in held.items():
        its = sorted(cards.get(container, [""]))
        size = int(granted.get(container, 0) * MIB) // len(its)
        for card in its:
            number = {name: rows.get((container, card), 0.0) for name, rows in figures.items()}
            scrapes = number["scrapes"] or 1
            held_s = min(minutes * _MINUTE_S, day.seconds)
            measured_s = min(number["measured"] * _MINUTE_S, held_s)
            known = day.cards.get(card)
            yield UseDigest(
                until=min(last.get(container, day.until), day.until), period_s=day.seconds,
                namespace=container[0], pod=container[1], container=container[2], card=card,
                model=known.model if known is not None else "",
                part=part_of(size, cores.get(container, 0) * 100 / len(its), known),
                granted_bytes=size, held_s=held_s, measured_s=measured_s,
                gpu_s=number["busy"] / scrapes / 100 * measured_s,
                idle_s=min(number["idle"] * _MINUTE_S, measured_s),
                throttled_s=min(number["throttled"] / scrapes / 100, 1) * measured_s,
                byte_s=number["memory"] / scrapes * measured_s, peak_bytes=int(number["peak"]),
                gaps=tuple(sorted(gaps.get(container, ()))),
            )  # fmt: skip


def _card(labels: Labels, memory_bytes: float) -> Card:
    return Card(
        id=labels["card"], index=0, vendor="", model=labels.get("model", ""),
        memory_bytes=int(memory_bytes),
    )  # fmt: skip


def _sum(day: DayFigures, name: str, key: Callable[[Labels], K]) -> dict[K, float]:
    """An agent that was restarted may have two series of one container."""
    found: dict[K, float] = {}
    for labels, number in day.rows[name]:
        found[key(labels)] = found.get(key(labels), 0.0) + number
    return found


def _most(day: DayFigures, name: str, key: Callable[[Labels], K]) -> dict[K, float]:
    found: dict[K, float] = {}
    for labels, number in day.rows[name]:
        found[key(labels)] = max(found.get(key(labels), 0.0), number)
    return found


def _container(labels: Labels) -> ContainerName:
    """Of GPU Manager's metrics."""
    return (
        _label(labels, "namespace"), labels.get("pod_name", ""), labels.get("container_name", "")
    )  # fmt: skip


def _share(labels: Labels) -> tuple[ContainerName, str]:
    """Of Tessera's."""
    of = _label(labels, "namespace"), _label(labels, "pod"), _label(labels, "container")
    return of, labels.get("card", "")


def _label(labels: Labels, name: str) -> str:
    """A label; where Prometheus gave the scrape target's own its name, it is `exported_...`."""
    return labels.get(f"exported_{name}") or labels.get(name, "")
