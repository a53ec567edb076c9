"""The configuration of Volcano's scheduler in a cluster that ran it: the ConfigMap is read once, at
the start.

Whatever is wrong with it or with reading it is a warning: its arguments switch ways of asking off
and order cards, and nothing is lost without them. A change takes effect at the next start.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_core.dialects.volcano import scheduler_config as conf_of
from tessera_runtime import logs
from tessera_runtime.errors import ApiNotFound, TesseraError, Transient
from tessera_runtime.kube.api import Kube, Verb

KEY: Final = "volcano-scheduler.conf"
_log: Final = logs.named("tessera.scheduler.volcanoconf")


class _ConfigMap(Struct, frozen=True):
    data: dict[str, str] | None = None


async def scheduler_conf(kube: Kube, where: str, again_s: float = 1.0) -> dict[str, Any]:
    """The file in the ConfigMap `namespace/name`; empty where there is none, or none to read.

    Where the API server does not answer it is asked again, `again_s` seconds later, twice.
    """
    namespace, _, name = where.partition("/")
    if not name:
        return {}
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    why = ""
    for wait_s in (again_s, again_s, None):
        try:
            return _conf(await kube.call(Verb.GET, path))
        except ApiNotFound:
            return {}
        except Transient as e:
            why = str(e)
            if wait_s is not None:
                await asyncio.sleep(wait_s)
        except (TesseraError, msgspec.DecodeError, ValueError) as e:
            why = str(e)
            break
    _log.warning("Volcano's configuration is not read: it has no effect", at=where, why=why)
    return {}


def _conf(raw: bytes) -> dict[str, Any]:
    """Raises msgspec.DecodeError, ValueError for what is no configuration of Volcano's."""
    text = (_decode(raw).data or {}).get(KEY, "")
    conf = msgspec.yaml.decode(text, type=dict[str, Any] | None) or {}
    conf_of.read(conf)
    return conf


_decode = msgspec.json.Decoder(_ConfigMap).decode
