"""Settings: one precedence, no unknown keys, every mistake named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from oncelog.errors import ConfigError
from oncelog_runtime.config.settings import HelpRequested, NodeConfig, load, setting


@dataclass(frozen=True, kw_only=True)
class ToyConfig(NodeConfig):
    block_size: int = setting(1000, "ids per block")
    ratio: float = setting(0.5, "a number")
    eager: bool = setting(False, "a switch")
    mode: Literal["a", "b"] = setting("a", "a choice")
    names: tuple[str, ...] = setting((), "a list")
    sizes: tuple[int, ...] = setting((1, 2), "numbers")
    maybe: int | None = setting(None, "a number or nothing")
    api_key: str = setting("", "never shown", secret=True)

    def __post_init__(self) -> None:
        NodeConfig.__post_init__(self)
        self.check("block_size", self.block_size > 0, "above 0")


def toy(*argv: str, **environ: str) -> ToyConfig:
    return load("toy", ToyConfig, argv, environ)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text('block_size = 1\nratio = 2\nnames = ["x", "y"]\nmode = "b"\n')
    return path


def test_flags_beat_environment_beats_file_beats_defaults(file: Path) -> None:
    config = toy("--config", str(file), "--ratio=4", ONCELOG_TOY_RATIO="3", ONCELOG_TOY_NODE_ID="7")
    assert (config.block_size, config.ratio, config.node_id, config.names) == (1, 4.0, 7, ("x", "y"))
    assert toy(ONCELOG_TOY_CONFIG=str(file)).mode == "b"
    assert toy().block_size == 1000


def test_text_becomes_the_type_of_the_field() -> None:
    config = toy("--eager", "--names", "a, b,", "--sizes=3,4", "--maybe", "5", "--mode=b", "--listen-port", "9092")
    assert (config.eager, config.names, config.sizes, config.maybe) == (True, ("a", "b"), (3, 4), 5)
    assert (config.mode, config.listen_port) == ("b", 9092)
    assert toy("--eager", "no").eager is False
    assert toy("--maybe=").maybe is None


@pytest.mark.parametrize(
    ("argv", "environ", "hint"),
    [
        (["--blok-size", "5"], {}, "unknown option --blok-size: did you mean --block-size?"),
        ([], {"ONCELOG_TOY_BLOCKSIZE": "5"}, "did you mean ONCELOG_TOY_BLOCK_SIZE?"),
        (["--block-size", "many"], {}, "block_size must be whole number"),
        (["--block-size", "1.5"], {}, "block_size must be whole number"),
        (["--eager=maybe"], {}, "eager must be true or false"),
        (["--mode=c"], {}, "mode must be one of a, b"),
        (["--block-size"], {}, "--block-size needs a value"),
        (["--block-size=0"], {}, "block_size must be above 0"),
        (["--etcd-endpoints=here"], {}, "etcd_endpoints must be host:port"),
        (["--etcd-endpoints="], {}, "at least one"),
        (["--log-level=LOUD"], {}, "log_level must be one of"),
        (["--listen-port=70000"], {}, "listen_port must be 0 to 65535"),
        (["--listen-port=9", "--health-port=9"], {}, "health_port must be different"),
        (["--config", "/nowhere/x.toml"], {}, "cannot read the configuration file"),
        (["stray"], {}, "unknown option stray"),
    ],
)
def test_a_mistake_is_named(argv: list[str], environ: dict[str, str], hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        toy(*argv, **environ)
    assert hint in caught.value.message


def test_a_mistake_in_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    for text, hint in (
        ("blocksize = 1", "did you mean block_size?"),
        ("block_size = ", "not TOML"),
        ("block_size = true", "whole number"),
        ("names = 5", "list of text"),
        ("log_level = 5", "log_level must be text"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            toy("--config", str(path))
        assert hint in caught.value.message


def test_what_kubernetes_adds_for_a_service_of_the_same_name_is_no_setting() -> None:
    toy(
        ONCELOG_TOY_SERVICE_HOST="10.0.0.1",
        ONCELOG_TOY_SERVICE_PORT="9092",
        ONCELOG_TOY_SERVICE_PORT_GRPC="9092",
        ONCELOG_TOY_PORT="tcp://10.0.0.1:9092",
        ONCELOG_TOY_PORT_9092_TCP="tcp://10.0.0.1:9092",
        ONCELOG_TOY_PORT_9092_TCP_ADDR="10.0.0.1",
    )
    with pytest.raises(ConfigError):
        toy(ONCELOG_TOY_PORTS="1")


def test_the_docs_table_has_a_row_for_every_field() -> None:
    rows = {row.name: row for row in ToyConfig.describe("toy")}
    assert rows["block_size"].environment == "ONCELOG_TOY_BLOCK_SIZE"
    assert rows["block_size"].flag == "--block-size"
    assert rows["block_size"].type == "whole number"
    assert rows["sizes"].default == "1,2"
    assert all(row.doc for row in rows.values())


def test_help_names_every_option_and_secrets_stay_secret() -> None:
    with pytest.raises(HelpRequested) as caught:
        toy("--help")
    assert all(row.flag in str(caught.value) for row in ToyConfig.describe("toy"))
    assert toy("--api-key=hush").effective()["api_key"] == "***"
    assert toy().effective()["block_size"] == 1000
