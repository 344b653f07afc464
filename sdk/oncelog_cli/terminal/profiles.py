"""Connection profiles: named sets of the common flags, in one JSON file of the user's.

Rule 1: a flag stands above the environment, the environment above the profile, the profile above the default.
Rule 2: the profile is `--profile`, else ONCELOG_PROFILE, else the one that `oncelog profile use` made the current one.
Rule 3: the file is replaced at once and readable for its owner alone; paths in it are absolute.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from oncelog.core.malformed import MALFORMED
from oncelog.errors import ConfigError

SETTINGS: Final = (
    "bootstrap_servers", "security_protocol", "ssl_cafile", "ssl_certfile", "ssl_keyfile",
    "token_file", "username", "password_file", "timeout_ms", "format", "client_rack",
)  # fmt: skip
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "token_file", "password_file")


@dataclass(slots=True)
class Profiles:
    """The content of the profiles' file. `current` is empty when no profile is chosen."""

    profiles: dict[str, dict[str, str]] = field(default_factory=dict)
    current: str = ""

    @staticmethod
    def path(environment: Mapping[str, str]) -> Path:
        """Below XDG_CONFIG_HOME, or ~/.config."""
        base = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
        return Path(base) / "oncelog" / "profiles.json"

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Profiles:
        """No file: no profiles. Raises `ConfigError` for one that cannot be understood."""
        path = cls.path(environment)
        try:
            data = json.loads(path.read_text())
            profiles = {
                str(name): {str(k): str(v) for k, v in items.items()} for name, items in data["profiles"].items()
            }
            return cls(profiles, str(data.get("current", "")))
        except FileNotFoundError:
            return cls()
        except (OSError, *MALFORMED) as error:
            raise ConfigError(f"the profiles in {path} cannot be read: {error}; correct or remove the file") from error

    def write(self, environment: Mapping[str, str]) -> None:
        """Replaces the file."""
        path = self.path(environment)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as out:
            json.dump({"version": 1, "current": self.current, "profiles": self.profiles}, out, indent=1, sort_keys=True)
        temporary.replace(path)

    def get(self, name: str) -> dict[str, str]:
        """Raises `ConfigError` with the names that there are."""
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise ConfigError(f"there is no profile {name!r}; there are: {known}")
        return self.profiles[name]


@dataclass(frozen=True, slots=True)
class Defaults:
    """Returns the value of a common flag that is not given."""

    environment: Mapping[str, str] = field(default_factory=dict)
    profile: Mapping[str, str] = field(default_factory=dict)

    def of(self, setting: str, otherwise: str = "") -> str:
        """ONCELOG_<SETTING>, else the profile's, else `otherwise`."""
        return self.environment.get(variable(setting)) or self.profile.get(setting) or otherwise


def variable(setting: str) -> str:
    """The environment variable of a setting."""
    return f"ONCELOG_{setting.upper()}"


def defaults_for(words: Sequence[str], environment: Mapping[str, str]) -> Defaults:
    """For a command line. Raises `ConfigError` when the profile that it names, or the file, is not usable."""
    named = _named(words) or environment.get("ONCELOG_PROFILE", "")
    if words[:1] == ["profile"] and not named:
        return Defaults(environment)  # so that a broken choice can be mended
    profiles = Profiles.read(environment)
    name = named or profiles.current
    return Defaults(environment, profiles.get(name) if name else {})


def _named(words: Sequence[str]) -> str:
    for i, word in enumerate(words):
        if word.startswith("--profile="):
            return word.partition("=")[2]
        if word == "--profile" and i + 1 < len(words):
            return words[i + 1]
    return ""


def settings_of(given: Mapping[str, object], plain: Mapping[str, object]) -> dict[str, str]:
    """Returns the flags that differ from the built-in defaults, as a profile keeps them; `--format` is not among them."""
    names = [name for name in SETTINGS if name != "format"]
    kept = {name: str(given[name]) for name in names if given.get(name) not in (None, "", plain.get(name))}
    return {name: str(Path(value).resolve()) if name in _FILES else value for name, value in kept.items()}


def checked(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE pairs of `--set`. Raises `ConfigError`."""
    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        name = name.replace("-", "_").replace(".", "_")
        if not separator or name not in SETTINGS:
            raise ConfigError(f"--set takes NAME=VALUE with one of {', '.join(SETTINGS)}", given=pair)
        found[name] = str(Path(value).resolve()) if name in _FILES and value else value
    return found
