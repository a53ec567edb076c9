"""matchConditions: which requests a webhook is called for, in the Common Expression Language."""

from __future__ import annotations

import pytest

from tests.contract.client import Json
from tests.contract.objects import a_binding, a_pod
from tests.contract.receiver import POD_RULE, OpenAdmission

GPU, MEMORY = "a.dev/gpu", "b.dev/gpumem"
NAMES = f'["{GPU}", "{MEMORY}"]'
ASKS = (
    f"has(c.resources) && (has(c.resources.limits) && c.resources.limits.exists(k, k in {NAMES})"
    f" || has(c.resources.requests) && c.resources.requests.exists(k, k in {NAMES}))"
)
ANY_CONTAINER = (
    f"object.spec.containers.exists(c, {ASKS})"
    f" || has(object.spec.initContainers) && object.spec.initContainers.exists(c, {ASKS})"
)
NOTED = (
    "has(object.metadata.annotations) && "
    'object.metadata.annotations.exists(k, k.startsWith("a.dev/") || k in ["b.dev/x", "c"])'
)


def conditions(*expressions: str) -> list[Json]:
    return [{"name": f"c{i}", "expression": text} for i, text in enumerate(expressions)]


def with_init(limits: Json) -> Json:
    init = {"name": "init", "image": "i", "resources": {"limits": limits}}
    return a_pod("p", initContainers=[init])


def with_sidecar(limits: Json) -> Json:
    body = with_init(limits)
    body["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    return body


def second(limits: Json) -> Json:
    body = a_pod("p")
    body["spec"]["containers"].append(
        {"name": "second", "image": "i", "resources": {"limits": limits}}
    )
    return body


CPU = {"cpu": "1"}


@pytest.mark.parametrize(
    ("expression", "chosen", "left"),
    [
        ("true", [a_pod()], []),
        ("false", [], [a_pod()]),
        (
            ANY_CONTAINER,
            [
                a_pod(limits={GPU: 1}), a_pod(limits={**CPU, MEMORY: 1}), second({GPU: 1}),
                with_init({GPU: 1}), with_sidecar({MEMORY: 1}),
            ],
            [a_pod(), a_pod(limits=CPU), second(CPU), with_init(CPU), a_pod(limits={"c.dev/x": 1})],
        ),
        (
            NOTED,
            [a_pod(annotations={"a.dev/k": "v"}), a_pod(annotations={"z": "", "c": ""})],
            [a_pod(), a_pod(annotations={"b.dev/y": "v"}), a_pod(annotations={"aa.dev/k": "v"})],
        ),
        (
            f"({ANY_CONTAINER}) || {NOTED}",
            [a_pod(limits={GPU: 1}), a_pod(annotations={"c": "v"}), with_init({MEMORY: 1})],
            [a_pod(), a_pod(limits=CPU, annotations={"d": "v"})],
        ),
        (
            "(object.spec.containers + (has(object.spec.initContainers) ? "
            "object.spec.initContainers : [])).exists(c, has(c.resources) && "
            'has(c.resources.limits) && c.resources.limits.exists(k, k.startsWith("a.dev/")))',
            [a_pod(limits={GPU: 1}), with_init({GPU: 1})],
            [a_pod(), a_pod(limits={MEMORY: 1})],
        ),
        (
            "object.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && "
            f'"{GPU}" in c.resources.limits)',
            [a_pod(limits={GPU: 1})], [second({GPU: 1}), a_pod()],
        ),
        (
            f'object.spec.containers.exists(c, has(c.resources.limits) && "{GPU}" in '
            f'c.resources.limits && c.resources.limits["{GPU}"] != "1")',
            [a_pod(limits={GPU: 2})], [a_pod(limits={GPU: 1}), a_pod()],
        ),
        (
            'object.spec.schedulerName in ["volcano", "mine"]',
            [a_pod(schedulerName="mine")], [a_pod(), a_pod(schedulerName="other")],
        ),
        ("has(object.spec.nodeName)", [a_pod(nodeName="n1")], [a_pod()]),
        (
            '!(has(object.metadata.labels) && "skip" in object.metadata.labels)',
            [a_pod(), a_pod(labels={"k": "v"})], [a_pod(labels={"skip": "1"})],
        ),
        (
            'has(object.metadata.annotations) && "k" in object.metadata.annotations && '
            'object.metadata.annotations["k"].size() > 3',
            [a_pod(annotations={"k": "long"})], [a_pod(annotations={"k": "s"}), a_pod()],
        ),
        ("oldObject == null", [a_pod()], []),
        ("!has(oldObject.metadata)", [a_pod()], []),
        ('request.operation == "CREATE" && request.resource.resource == "pods"', [a_pod()], []),
        ('request.userInfo.username.endsWith("admin")', [a_pod()], []),
        ('request.userInfo.groups.exists(g, g == "system:masters")', [a_pod()], []),
        ('!("system:masters" in request.userInfo.groups)', [], [a_pod()]),
        ('request.namespace.matches("^contract-[0-9a-f]+$")', [a_pod()], []),
    ],
)  # fmt: skip
async def test_pods_are_chosen_by_an_expression(
    admission: OpenAdmission, expression: str, chosen: list[Json], left: list[Json]
) -> None:
    async with admission() as (cluster, receiver):
        hook = receiver.hook(cluster, matchConditions=conditions(expression))
        await receiver.register(cluster, hook)
        calls = []
        for body in (*chosen, *left):
            before = len(receiver.requests())
            answer = await cluster.admin.post(cluster.pods, body, dryRun="All")
            assert answer.status == 201, answer.body
            calls.append(len(receiver.requests()) - before)
    assert calls == [1] * len(chosen) + [0] * len(left)


async def test_all_conditions_must_hold(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        texts = conditions('object.metadata.name != "q"', 'object.metadata.name != "r"')
        await receiver.register(cluster, receiver.hook(cluster, matchConditions=texts))
        for name in ("p", "q", "r"):
            await cluster.pod(name)
    assert [asked["name"] for asked in receiver.requests()] == ["p"]


@pytest.mark.parametrize(("policy", "status"), [("Fail", 403), ("Ignore", 201)])
async def test_a_condition_that_cannot_be_known_is_as_good_as_a_failure(
    admission: OpenAdmission, policy: str, status: int
) -> None:
    async with admission() as (cluster, receiver):
        texts = conditions('object.metadata.annotations["k"] == "v"')
        hook = receiver.hook(cluster, matchConditions=texts, failurePolicy=policy)
        await receiver.register(cluster, hook)
        answer = await cluster.admin.post(cluster.pods, a_pod("p"))
    assert answer.status == status
    assert receiver.requests() == []
    if policy == "Fail":
        assert "no such key" in answer.refused(403, "Forbidden")


async def test_a_condition_that_is_false_outweighs_one_that_cannot_be_known(
    admission: OpenAdmission,
) -> None:
    async with admission() as (cluster, receiver):
        texts = conditions('object.metadata.annotations["k"] == "v"', "false")
        await receiver.register(cluster, receiver.hook(cluster, matchConditions=texts))
        answer = await cluster.admin.post(cluster.pods, a_pod("p"))
    assert (answer.status, receiver.requests()) == (201, [])


@pytest.mark.parametrize(
    ("expression", "called"),
    [
        ('object.metadata.annotations["k"] == "v" || true', True),
        ('object.metadata.annotations["k"] == "v" && false', False),
        ('[1, 2].exists(x, x == 2 || object.metadata.annotations["k"] == "v")', True),
        ('[1, 2].all(x, x == 1 && object.metadata.annotations["k"] == "v")', False),
    ],
)
async def test_the_other_side_can_decide_for_a_side_that_cannot_be_known(
    admission: OpenAdmission,
    expression: str,
    called: bool,  # noqa: FBT001  (a table's column)
) -> None:
    async with admission() as (cluster, receiver):
        hook = receiver.hook(cluster, matchConditions=conditions(expression))
        await receiver.register(cluster, hook)
        answer = await cluster.admin.post(cluster.pods, a_pod("p"))
    assert (answer.status, len(receiver.requests())) == (201, int(called))


async def test_a_webhook_that_is_down_holds_up_only_what_its_conditions_choose(
    admission: OpenAdmission,
) -> None:
    async with admission() as (cluster, receiver):
        hook = receiver.hook(cluster, matchConditions=conditions(ANY_CONTAINER))
        hook["clientConfig"]["url"] = "https://127.0.0.1:1/hook"
        await receiver.register(cluster, hook)
        plain = await cluster.admin.post(cluster.pods, a_pod("p", limits=CPU))
        asking = await cluster.admin.post(cluster.pods, a_pod("q", limits={GPU: 1}))
    assert plain.status == 201
    asking.refused(500, "InternalError")


UPDATES = {**POD_RULE, "operations": ["UPDATE"], "resources": ["pods", "pods/status"]}
OLD, NEW = "oldObject.metadata.annotations", "object.metadata.annotations"
CHANGED = (
    f'has({NEW}) && {NEW}.exists(k, k.startsWith("a.dev/")'
    f" && !(has({OLD}) && k in {OLD} && {OLD}[k] == {NEW}[k]))"
    f' || has({OLD}) && {OLD}.exists(k, k.startsWith("a.dev/") && !(has({NEW}) && k in {NEW}))'
)


async def test_changes_of_chosen_keys_are_reviewed(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        hook = receiver.hook(cluster, rules=[UPDATES], matchConditions=conditions(CHANGED))
        await receiver.register(cluster, hook, kind="Validating")
        await cluster.pod("p")
        calls = []
        for notes in (
            {"other": "1"}, {"a.dev/k": "1"}, {"a.dev/k": "1", "other": "2"}, {"a.dev/k": "2"},
            {"a.dev/l": "1"}, {"a.dev/k": None}, {"other": None},
        ):  # fmt: skip
            before = len(receiver.requests())
            patch = {"metadata": {"annotations": notes}}
            assert (await cluster.admin.patch(f"{cluster.pods}/p", patch)).status == 200
            # A write that is tried again, because what it was made from was old, asks again.
            calls.append(len(receiver.requests()) > before)
        before = len(receiver.requests())
        await cluster.name_of("p", phase="Running")
    assert calls == [False, True, False, True, True, True, False]
    assert len(receiver.requests()) == before


async def test_a_binding_is_chosen_by_its_annotations(admission: OpenAdmission) -> None:
    async with admission() as (cluster, receiver):
        rule = {**POD_RULE, "resources": ["pods/binding"]}
        hook = receiver.hook(cluster, rules=[rule], matchConditions=conditions(NOTED))
        await receiver.register(cluster, hook, kind="Validating")
        for name, notes in (("p", {"a.dev/k": "v"}), ("q", {})):
            await cluster.pod(name)
            binding = a_binding(name, "n1", annotations=notes)
            assert (
                await cluster.admin.post(f"{cluster.pods}/{name}/binding", binding)
            ).status == 201
    assert [asked["name"] for asked in receiver.requests()] == ["p"]
