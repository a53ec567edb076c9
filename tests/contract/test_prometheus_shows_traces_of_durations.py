"""A real Prometheus finds the trace of a pod next to the durations of its way."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.contract.prometheus import prometheus, scrapes
from tests.contract.served_services import TRACE_ID, served_services

MONITORS: Final = Path(__file__).parents[2] / "deploy/kustomize/components/prometheus/monitors.yaml"
DURATIONS: Final = (
    'tessera_scheduler_admission_seconds_bucket{phase="admit"}',
    'tessera_scheduler_extender_seconds_bucket{verb="filter"}',
    "tessera_scheduler_bind_seconds_bucket",
    "tessera_agent_prepare_seconds_bucket",
)


@pytest.mark.timeout(300)
async def test_the_trace_of_a_pod_is_found_from_each_duration(tmp_path: Path) -> None:
    async with served_services(tmp_path) as urls:
        monitors = list(yaml.safe_load_all(MONITORS.read_text()))
        jobs = list(scrapes(monitors, {f"tessera-{name}": url for name, url in urls.items()}))
        assert len(jobs) == len(urls)
        features = "--enable-feature=exemplar-storage"
        async with prometheus(tmp_path, {"scrape_configs": jobs}, features) as server:

            async def scraped() -> bool:
                return len(await server.query("up == 1")) == len(urls)

            await server.until(scraped)
            now = time.time()
            for duration in DURATIONS:
                found = await server.get(
                    "query_exemplars", query=duration, start=now - 600, end=now + 60
                )
                traces = {e["labels"]["trace_id"] for series in found for e in series["exemplars"]}
                assert traces == {TRACE_ID}, duration
