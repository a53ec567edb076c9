"""Which cluster a bus serves: buckets are republished under its name, so one bucket says it."""

from __future__ import annotations

from tessera_runtime.bus.jetstream import JetStreamRefused, stream_info
from tessera_runtime.bus.nats_link import open_link
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.bus.streams import StreamLayout
from tessera_runtime.errors import BusAway
from tessera_schema.subjects import DEVICES_BUCKET, ROOT


async def served_cluster(settings: BusSettings) -> str:
    """The name; empty where no service has made the buckets yet. Raises BusAway."""
    bucket = StreamLayout(settings.cluster).bucket(DEVICES_BUCKET)
    async with open_link(settings, "tessera-cluster") as link:
        try:
            info = await stream_info(link, bucket.name)
        except JetStreamRefused as e:
            raise BusAway(f"{settings.server_names}: {e}") from e
    republished = (info.config.get("republish") or {}) if info is not None else {}
    tokens = str(republished.get("dest", "")).removeprefix(f"{ROOT}.").split(".")
    return tokens[0] if len(tokens) > 1 else ""
