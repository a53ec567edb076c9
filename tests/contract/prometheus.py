"""A real Prometheus, that scrapes as the operator makes it scrape."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientError, ClientSession

from tessera_embedded.parent import ends_with_parent
from tessera_embedded.ports import reserved_ports
from tests.contract.kubebin import kube_bin
from tests.contract.session_fixtures import or_skip

Json = dict[str, Any]
Rows = list[dict[str, Any]]
POD = {"namespace": "tessera-system", "pod": "its-own", "container": "c"}
"""Labels that the operator gives to the targets of a PodMonitor."""


class Prometheus:
    """A server that runs."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def get(self, path: str, **params: str | float) -> Any:
        """The data of an answer of its API."""
        async with self._session.get(f"/api/v1/{path}", params=params) as answer:
            found = await answer.json()
        assert found["status"] == "success", f"{path} {params}: {found}"
        return found["data"]

    async def query(self, expression: str) -> Rows:
        """What an expression gives now; scalars have no labels."""
        data = await self.get("query", query=expression)
        if data["resultType"] == "scalar":
            return [{"metric": {}, "value": data["result"]}]
        rows: Rows = data["result"]
        return rows

    async def until(self, holds: Callable[[], Awaitable[object]], within_s: float = 60) -> None:
        """Wait until an answer is not empty."""
        async with asyncio.timeout(within_s):
            while True:
                try:
                    if await holds():
                        return
                except ClientError:
                    pass  # it does not listen yet
                await asyncio.sleep(0.1)


@asynccontextmanager
async def prometheus(
    folder: Path, configuration: Mapping[str, Any], *flags: str
) -> AsyncGenerator[Prometheus]:
    """Prometheus with this configuration, every second; skipped where it cannot be had."""
    with or_skip():
        program = await asyncio.to_thread(kube_bin, "prometheus")
    with reserved_ports(1) as (port,):
        pass
    # The second is how far apart points of a subquery are.
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump({"global": every, **configuration}))
    process = await asyncio.create_subprocess_exec(
        program / "prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error", *flags,
        preexec_fn=ends_with_parent(),
    )  # fmt: skip
    try:
        async with ClientSession(f"http://127.0.0.1:{port}") as session:
            yield Prometheus(session)
    finally:
        process.kill()
        await process.wait()


def scrapes(
    monitors: Iterable[Json], urls: Mapping[str, str], more: Mapping[str, str] = {}
) -> Iterator[Json]:
    """What the operator makes of PodMonitors, with one pod for each, served at `urls` by the name
    of the monitor. `more` are the pods' `__meta_...` labels."""
    for monitor in monitors:
        name = monitor["metadata"]["name"]
        if name not in urls:
            continue
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        target = {"targets": [urls[name].removeprefix("http://")], "labels": {**POD, **more}}
        yield {
            "job_name": name,
            "metrics_path": endpoint.get("path", "/metrics"),
            "params": endpoint.get("params", {}),
            "honor_labels": endpoint.get("honorLabels", False),
            "relabel_configs": list(map(_relabeling, endpoint.get("relabelings", ()))),
            "static_configs": [target],
        }


def _relabeling(written: Json) -> Json:
    names = {
        "sourceLabels": "source_labels", "targetLabel": "target_label",
        "replacement": "replacement", "regex": "regex", "action": "action",
    }  # fmt: skip
    return {names[name]: value for name, value in written.items()}
