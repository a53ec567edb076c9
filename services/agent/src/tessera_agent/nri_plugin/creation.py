"""What the runtime is answered for a container that it creates."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tessera_agent.admission.admission import ContainerAdmitter
from tessera_agent.admission.device_check import DeviceCheck
from tessera_agent.admission.prepare import ContainerPreparer, PreparedContainer, refusal_text
from tessera_agent.containers.adjustment import disarmed, irreplaceable_variable
from tessera_agent.delivery.injector import DeviceInjector, DevicesMissing, InjectedDevices
from tessera_agent.nri_plugin.hidden_cards import HiddenCards
from tessera_core.dialect_kit.contract import Vendor
from tessera_core.node.container_admission import Granted, NoDevices, Refused
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, CreationRefused, PodSandbox


class CreationHandler:
    """Answers CreateContainer, at once and from memory, but for the container's two files."""

    def __init__(
        self, vendor: Vendor, admitter: ContainerAdmitter, preparer: ContainerPreparer,
        device_check: DeviceCheck, hidden: HiddenCards, injector: DeviceInjector,
    ) -> None:  # fmt: skip
        self._vendor = vendor
        self._admitter = admitter
        self._preparer = preparer
        self._device_check = device_check
        self._hidden = hidden
        self._injector = injector

    def create_container(
        self, pod: PodSandbox, container: ContainerInfo
    ) -> Adjustment | CreationRefused:
        """The container's cards, limits and hook; or what keeps it from seeing cards; or a refusal,
        after which kubelet asks again."""
        answer = self._answer(pod, container)
        if isinstance(answer, Refused):
            return CreationRefused(why=refusal_text(answer))
        return answer

    def _answer(self, pod: PodSandbox, container: ContainerInfo) -> Adjustment | Refused:
        if path := self._hidden.mount_in(pod, container):
            return self._preparer.refuse_mount(pod, container, path)
        if not self._admitter.has_grant(pod):
            return self._without_cards(pod, container, self._vendor.deny)
        with self._preparer.span("tessera.agent.prepare", pod, container.name) as span:
            match self._admitter.admit(pod, container.name):
                case NoDevices(env=env):
                    return self._without_cards(pod, container, env)
                case Refused() as refused:
                    span.failed(refused.message)
                    return self._preparer.refuse(pod, container.name, refused)
                case Granted() as granted:
                    span.set(cards=",".join(share.card for share in granted.shares))
                    self._device_check.check(pod, container, granted.shares)
                    answer = self._with_cards(pod, container, granted)
                    if isinstance(answer, Refused):
                        span.failed(refusal_text(answer))
                    return answer

    def _with_cards(
        self, pod: PodSandbox, container: ContainerInfo, granted: Granted
    ) -> Adjustment | Refused:
        try:
            devices = self._injector.inject(granted.injection, granted.cards)
        except DevicesMissing as e:
            return self._preparer.refuse_devices(pod, container, e)
        granted = replace(granted, injection=devices.injection)
        prepared = self._preparer.prepare(pod, container, granted)
        if isinstance(prepared, Refused):
            return prepared
        try:
            adjustment = self._render(prepared, devices)
        except OSError as e:
            return self._preparer.refuse_unprepared(pod, container, e)
        self._preparer.commit(prepared)
        return adjustment

    def _without_cards(
        self, pod: PodSandbox, container: ContainerInfo, deny: Mapping[str, str]
    ) -> Adjustment | Refused:
        if not self._hidden.are_hidden_from(pod):
            return Adjustment()
        env = {**disarmed(self._vendor, container.env), **deny}
        if name := irreplaceable_variable(env, self._vendor, container):
            return self._preparer.refuse_variable(pod, container, name)
        return Adjustment(env=env)

    def _render(self, prepared: PreparedContainer, devices: InjectedDevices) -> Adjustment:
        """The runtime's answer for a prepared container. Raises OSError where a device node is not
        there."""
        given = devices.injection
        return Adjustment(
            env=prepared.env, mounts=(*given.mounts, *prepared.mounts), cdi=devices.cdi,
            annotations=given.annotations,
            devices=tuple(map(self._injector.device_node, given.devices)),
        )  # fmt: skip
