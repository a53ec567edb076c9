import enum
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct, field

from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.kube.settings import EventSettings, KubeSettings, LeaseSettings
from tessera_runtime.process import ProcessSettings
from tessera_runtime.settings import load, variable, variables
from tessera_runtime.tracing.tracing import TelemetrySettings


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Paint(Struct, frozen=True, kw_only=True):
    colour: Colour = Colour.RED
    coats: Annotated[int, Meta(ge=1)] = 2
    dries_s: float = 0.5
    glossy: bool = False
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = (1,)
    file: Path | None = None

    def check(self) -> None:
        if self.glossy and self.coats < 3:
            raise BadSettings(f"paint.coats: {self.coats}: write at least 3 where it is glossy")


class Settings(Struct, frozen=True, kw_only=True):
    owner: str
    secret_token: Annotated[int, variable("OWNERS_TOKEN")] = 0
    paint: Paint = Paint(coats=4)


GOOD = {"TESSERA_OWNER": "me"}


def test_what_is_not_set_keeps_the_default_of_the_whole() -> None:
    read = load(Settings, GOOD)
    assert read == Settings(owner="me", paint=Paint(coats=4))


def test_every_kind_of_value_is_read() -> None:
    read = load(
        Settings,
        GOOD
        | {
            "TESSERA_PAINT_COLOUR": "blue",
            "TESSERA_PAINT_COATS": "7",
            "TESSERA_PAINT_DRIES_S": "1.5",
            "TESSERA_PAINT_GLOSSY": "true",
            "TESSERA_PAINT_NAMES": "a, b,",
            "TESSERA_PAINT_SIZES": "3,4",
            "TESSERA_PAINT_FILE": "/tmp/x",  # noqa: S108  (only read)
            "OWNERS_TOKEN": "12",
        },
    )
    assert read.paint == Paint(
        colour=Colour.BLUE,
        coats=7,
        dries_s=1.5,
        glossy=True,
        names=("a", "b"),
        sizes=(3, 4),
        file=Path("/tmp/x"),  # noqa: S108  (only read)
    )
    assert read.secret_token == 12


def test_the_environment_of_others_is_left_alone() -> None:
    assert load(Settings, GOOD | {"PATH": "/bin", "TESSERACT": "x"}).owner == "me"


def test_an_unknown_variable_names_the_nearest_known() -> None:
    with pytest.raises(BadSettings, match=r"TESSERA_PAINT_COTS: .* write TESSERA_PAINT_COATS"):
        load(Settings, GOOD | {"TESSERA_PAINT_COTS": "2"})


def test_an_unknown_variable_that_is_near_none_is_given_no_other_name() -> None:
    with pytest.raises(BadSettings, match=r"TESSERA_BOGUS: nothing reads it: unset it$"):
        load(Settings, GOOD | {"TESSERA_BOGUS": "2"})


@pytest.mark.parametrize("name", ["TESSERA_LIMITS", "TESSERA_USAGE", "TESSERA_LOG_LEVEL"])
def test_variables_of_the_hook_are_not_for_services(name: str) -> None:
    with pytest.raises(BadSettings, match=f"{name}: nothing reads it"):
        load(Settings, GOOD | {name: "1"})


def test_what_kubernetes_sets_for_services_of_our_namespace_is_no_setting() -> None:
    links = {
        "TESSERA_SCHEDULER_SERVICE_HOST": "10.0.0.7",
        "TESSERA_SCHEDULER_SERVICE_PORT": "443",
        "TESSERA_SCHEDULER_SERVICE_PORT_HTTPS": "443",
        "TESSERA_SCHEDULER_PORT": "tcp://10.0.0.7:443",
        "TESSERA_SCHEDULER_PORT_443_TCP": "tcp://10.0.0.7:443",
        "TESSERA_SCHEDULER_PORT_443_TCP_ADDR": "10.0.0.7",
    }
    assert load(Settings, GOOD | links).owner == "me"
    with pytest.raises(BadSettings, match="TESSERA_SCHEDULER_PORT_443_TCP: nothing reads it"):
        load(Settings, GOOD | {"TESSERA_SCHEDULER_PORT_443_TCP": "tcp://10.0.0.7:443"})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("TESSERA_PAINT_COATS", "many", "'many': .*: write a whole number"),
        ("TESSERA_PAINT_COATS", "0", "'0': expected int >= 1: write a whole number"),
        ("TESSERA_PAINT_COATS", "", "'': .*: write a whole number"),
        ("TESSERA_PAINT_DRIES_S", "nan", "'nan': .*write a (finite )?number"),
        ("TESSERA_PAINT_DRIES_S", "inf", "'inf': .*write a (finite )?number"),
        ("TESSERA_PAINT_GLOSSY", "yes", "'yes': .*: write true or false"),
        ("TESSERA_PAINT_COLOUR", "pink", "'pink': .*: write one of red, blue"),
        ("TESSERA_PAINT_SIZES", "1,x", ".* write a list with commas between, of a whole number"),
        ("OWNERS_TOKEN", "hunter2", "7 characters: .*: write a whole number"),
    ],
)
def test_a_bad_value_is_reported_with_its_name_and_what_would_do(
    name: str, value: str, says: str
) -> None:
    with pytest.raises(BadSettings, match=f"^{name}: {says}"):
        load(Settings, GOOD | {name: value})


def test_secrets_are_not_repeated() -> None:
    with pytest.raises(BadSettings) as caught:
        load(Settings, GOOD | {"OWNERS_TOKEN": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(BadSettings) as caught:
        load(Settings, {"TESSERA_PAINT_COATS": "x", "TESSERA_X": "1"})
    text = str(caught.value)
    assert "TESSERA_OWNER: not set: write text" in text
    assert "TESSERA_PAINT_COATS: 'x'" in text
    assert "TESSERA_X: nothing reads it" in text


def test_sections_check_themselves() -> None:
    with pytest.raises(BadSettings, match=r"paint\.coats: 2: write at least 3"):
        load(Settings, GOOD | {"TESSERA_PAINT_COATS": "2", "TESSERA_PAINT_GLOSSY": "1"})


class Renamed(Struct, frozen=True, kw_only=True):
    varnish: Paint = field(default=Paint(coats=5), name="lacquer")


def test_a_field_that_is_renamed_keeps_the_name_of_its_variable() -> None:
    read = load(Renamed, {"TESSERA_LACQUER_SIZES": "8"})
    assert read == Renamed(varnish=Paint(coats=5, sizes=(8,)))
    assert "TESSERA_LACQUER_SIZES" in variables(Renamed)
    with pytest.raises(BadSettings, match="TESSERA_VARNISH_SIZES: nothing reads it"):
        load(Renamed, {"TESSERA_VARNISH_SIZES": "8"})


class Whole(Struct, frozen=True, kw_only=True):
    process: ProcessSettings = ProcessSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    kube: KubeSettings = KubeSettings()
    bus: BusSettings = BusSettings()
    http: HttpSettings = HttpSettings()
    lease: LeaseSettings = LeaseSettings()
    events: EventSettings = EventSettings()


def test_the_shared_sections_read_as_they_are() -> None:
    assert load(Whole, {}) == Whole()
    assert len(set(variables(Whole))) == len(variables(Whole))


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"TESSERA_KUBE_CALL_S": "0"}, "TESSERA_KUBE_CALL_S"),
        ({"TESSERA_KUBE_URL": "api:6443"}, "kube.url: 'api:6443': write https"),
        ({"TESSERA_KUBE_RETRY_MOST_S": "0.1"}, "kube.retry_most_s: 0.1"),
        ({"TESSERA_HTTP_PORT": "70000"}, "TESSERA_HTTP_PORT"),
        ({"TESSERA_HTTP_PORT": "tcp://10.0.0.7:443"}, "enableServiceLinks"),
        ({"TESSERA_PROCESS_LOG_LEVEL": "loud"}, "one of debug, info, warning, error"),
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, "OTEL_TRACES_EXPORTER: 'jaeger'"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "write http://"),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            },
            "'grpc': write http/protobuf",
        ),
    ],
)
def test_numbers_that_cannot_work_are_refused(environ: dict[str, str], says: str) -> None:
    with pytest.raises(BadSettings) as caught:
        load(Whole, environ)
    assert says in str(caught.value)
