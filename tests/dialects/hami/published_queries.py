"""What HAMi's Grafana board and its web interface query: expressions, and labels in legends.

Taken from the public sources of both: the board that ships with HAMi 2.10
(dashboards/hami-vgpu-dashboard.json) and HAMi-WebUI of June 2026 (packages/web/projects/vgpu,
server/internal). `$node` and the like are variables that Grafana or the page fills in.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Query(NamedTuple):
    """An expression, and the labels that its legend shows."""

    expression: str
    legend: tuple[str, ...] = ()


_HOST: Final = ("device_type", "device_index", "device_uuid")
_ON_NODE: Final = ("node", "device_index", "device_uuid")
_CONTAINER: Final = ("namespace", "pod", "container", "vdevice_index")

BOARD: Final = (
    Query('count(hami_gpu_memory_limit_bytes{node=~"$node"})'),
    Query('sum(hami_gpu_memory_limit_bytes{node=~"$node"})'),
    Query('sum(hami_gpu_memory_allocated_bytes{node=~"$node"})'),
    Query(
        '100 * sum(hami_gpu_memory_allocated_bytes{node=~"$node"}) / '
        'sum(hami_gpu_memory_limit_bytes{node=~"$node"})'
    ),
    Query('sum(hami_gpu_shared_count{node=~"$node"})'),
    Query(
        "hami_host_gpu_memory_used_bytes and on (device_uuid) "
        'hami_gpu_memory_limit_bytes{node=~"$node"}',
        _HOST,
    ),
    Query(
        "hami_host_gpu_utilization_ratio and on (device_uuid) "
        'hami_gpu_memory_limit_bytes{node=~"$node"}',
        _HOST,
    ),
    Query('sum by (node) (hami_gpu_memory_allocated_bytes{node=~"$node"})', ("node",)),
    Query('sum by (node) (hami_gpu_memory_limit_bytes{node=~"$node"})', ("node",)),
    Query('hami_node_gpu_memory_allocated_ratio{node=~"$node"}', _ON_NODE[:2]),
    Query('hami_gpu_core_allocated_ratio{node=~"$node"}', _ON_NODE),
    Query('hami_gpu_shared_count{node=~"$node"}', _ON_NODE),
    Query('hami_vgpu_memory_used_bytes{namespace=~"$namespace"}', _CONTAINER),
    Query('hami_vgpu_memory_limit_bytes{namespace=~"$namespace"}', _CONTAINER),
    Query('hami_container_device_utilization_ratio{namespace=~"$namespace"}', _CONTAINER),
    Query(
        '100 * hami_vgpu_memory_used_bytes{namespace=~"$namespace"} / '
        'hami_vgpu_memory_limit_bytes{namespace=~"$namespace"}',
        _CONTAINER,
    ),
    Query('topk(10, hami_vgpu_memory_used_bytes{namespace=~"$namespace"})'),
)
BOARD_VARIABLES: Final = {
    "$node": ("hami_gpu_memory_limit_bytes", "node"),
    "$namespace": ("hami_vgpu_memory_used_bytes", "namespace"),
}
"""Variable -> the metric and the label whose values Grafana offers."""

_BUSY: Final = (
    'hami_container_device_utilization_ratio{device_uuid="$device_uuid", '
    'namespace="$namespace", pod="$pod", container="$container"}'
)
WEB_SERVER: Final = (
    Query(
        f"sum_over_time({_BUSY}[1m]) == 0 or "
        f"(sum_over_time({_BUSY}[10m:]) / count_over_time(( {_BUSY} !=0)[10m:])) "
    ),
    Query(
        'avg(hami_vgpu_memory_used_bytes{device_uuid="$device_uuid", namespace="$namespace", '
        'pod="$pod", container="$container"})'
    ),
)
"""What the server of the web interface asks of the metrics of HAMi's monitor."""

_OF_CARD: Final = 'device_uuid=~"$device_uuid"'
_OF_NODE: Final = 'node=~"$node"'
_OF_CONTAINER: Final = (
    'container_name="$container",pod_name=~"$pod",namespace_name="$namespace"'
)  # fmt: skip


def _details(where: str) -> tuple[str, ...]:
    """The gauges of the page of one card or node."""
    return (
        f"avg(sum(hami_container_vcore_allocated{{{where}}}) by (instance))",
        f"avg(sum(hami_core_size{{{where}}}) by (instance))",
        f"avg(sum(hami_container_vcore_allocated{{{where}}}) by (instance)) / "
        f"avg(sum(hami_core_size{{{where}}}) by (instance)) *100",
        f"avg(sum(hami_container_vmemory_allocated{{{where}}}) by (instance)) / 1024",
        f"avg(sum(hami_memory_size{{{where}}}) by (instance)) / 1024",
        f"(avg(sum(hami_container_vmemory_allocated{{{where}}}) by (instance)) / 1024) /"
        f"(avg(sum(hami_memory_size{{{where}}}) by (instance)) / 1024) *100",
        f"avg(sum(hami_core_util{{{where}}}) by (instance))",
        f"avg(sum(hami_core_util_avg{{{where}}}) by (instance))",
        f"avg(sum(hami_memory_used{{{where}}}) by (instance)) / 1024",
        f"(avg(sum(hami_memory_used{{{where}}}) by (instance)) / 1024)/"
        f"(avg(sum(hami_memory_size{{{where}}}) by (instance))/1024)*100",
    )


def _ranking(of: str) -> tuple[str, ...]:
    return (
        f"topk(5, sum(hami_container_vcore_allocated{{}}) by ({of}) / "
        f"sum(hami_core_size{{}}) by ({of}) * 100)",
        f"topk(5, avg(hami_core_util_avg) by ({of}))",
        f"topk(5, sum(hami_container_vmemory_allocated{{}}) by ({of}) / "
        f"sum(hami_memory_size{{}}) by ({of}) * 100)",
        f"topk(5, sum(hami_memory_used) by ({of}) / sum(hami_memory_size) by ({of}) * 100)",
    )


WEB_PAGES: Final = tuple(
    Query(expression)
    for expression in (
        "avg(hami_core_size) by (device_uuid)",
        "avg(hami_memory_size) by (device_uuid)",
        "avg(sum(hami_core_size) by (node, instance)) by (node)",
        "avg(sum(hami_memory_size) by (node, instance)) by (node)",
        *_ranking("node"),
        *_ranking("device_uuid"),
        "count by (device_type) (sum by (device_uuid, device_type) (hami_vgpu_count))",
        "count by (provider) (sum by (node,provider) (hami_vgpu_count))",
        *_details(_OF_CARD),
        *_details(_OF_NODE),
        f"sum(hami_container_vgpu_allocated{{{_OF_CONTAINER}}})",
        f"sum(hami_container_vcore_allocated{{{_OF_CONTAINER}}})",
        f"sum(hami_container_vmemory_allocated{{{_OF_CONTAINER}}}) / "
        f"clamp_min(sum(hami_container_vgpu_allocated{{{_OF_CONTAINER}}}), 1) / 1024",
        f"avg(sum(hami_container_core_util{{{_OF_CONTAINER}}}) by (instance))",
        f"avg(sum(hami_container_memory_util{{{_OF_CONTAINER}}}) by (instance))",
        "topk(5, count by (node) "
        "(sum by (container_pod_uuid, node) (hami_container_vcore_allocated)))",
        "topk(5, count by (device_uuid) "
        "(sum by (container_pod_uuid, device_uuid) (hami_container_vcore_allocated)))",
        "topk(5, avg by (container_pod_uuid) (hami_container_vcore_allocated))",
        "topk(5, avg by (container_pod_uuid) (hami_container_vmemory_allocated))/1024",
        "topk(5, avg by (container_pod_uuid) (hami_container_vgpu_allocated))",
        "topk(5, count(count by (node, container_pod_uuid) "
        "(hami_container_vgpu_allocated{})) by (node))",
        "avg(sum (hami_container_vgpu_allocated) by (instance))",
        "avg(sum (hami_vgpu_count) by (instance))",
        "avg(sum (hami_container_vgpu_allocated) by (instance))/"
        "avg(sum (hami_vgpu_count) by (instance)) *100",
        *(one.replace("{}", "") for one in _details("")),
        "topk(5, avg(hami_container_vcore_allocated{}) by (node) / "
        "avg(hami_core_size{}) by (node) * 100)",
        "topk(5, avg(hami_container_vmemory_allocated{}) by (node) / "
        "avg(hami_memory_size{}) by (node) * 100)",
        "topk(5, avg(hami_memory_used) by (node) / avg(hami_memory_size) by (node) * 100)",
        "sum(hami_container_vcore_allocated) / sum(hami_core_size) * 100",
        "avg(hami_core_util_avg)",
        "sum(hami_container_vmemory_allocated) / sum(hami_memory_size) * 100",
        "sum(hami_memory_used) / sum(hami_memory_size) * 100",
    )
)
"""What its pages query: metrics that its server makes, and that Tessera serves instead."""

OF_VENDORS_EXPORTERS: Final = (
    Query(
        "avg by (device_no,driver_version) "
        '(hami_device_temperature{device_uuid=~"$device_uuid"})'
    ),
    Query(
        'avg by (device_no,driver_version) (hami_device_power{device_uuid=~"$device_uuid"})'
    ),
)  # fmt: skip
"""What its server makes of the vendor's own exporter, with HAMi as without."""
