"""A setting that is accepted and not acted upon is a promise broken: every one is read somewhere, or owns up to it."""

import re
from pathlib import Path
from typing import Any

import pytest

import highwater
from highwater.config.broker_config import BrokerConfig
from highwater.config.catalogue import THEMES
from highwater.config.not_yet import NOT_YET, REFUSED
from highwater.config.properties import ConfigError
from highwater.config.setting import Setting

PACKAGE = Path(highwater.__file__).parent
CONSTANTS = {name: value for theme in THEMES for name, value in vars(theme).items() if isinstance(value, Setting)}
SPEAK_FOR_ANOTHER = {fallback.setting for setting in CONSTANTS.values() for fallback in setting.fallbacks}


def code_that_reads_settings() -> str:
    declarations = {PACKAGE / "config" / "settings", PACKAGE / "config" / "not_yet.py"}
    files = [path for path in PACKAGE.rglob("*.py") if declarations.isdisjoint({path, path.parent})]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


CODE = code_that_reads_settings()


@pytest.mark.parametrize(("name", "setting"), CONSTANTS.items(), ids=CONSTANTS)
def test_a_setting_is_read_or_listed_as_not_in_effect(name: str, setting: Setting[Any]) -> None:
    is_read = setting in SPEAK_FOR_ANOTHER or re.search(rf"\b{name}\b", CODE) is not None
    is_listed = setting in NOT_YET or setting is CONSTANTS["AUTHORIZER_CLASS_NAME"]
    assert is_read != is_listed, "take it off the list in config/not_yet.py" if is_read else "read it, or list it there"


def test_setting_what_has_no_effect_is_a_warning() -> None:
    config = BrokerConfig({"log.preallocate": "true"})
    assert config.warnings == ("log.preallocate has no effect: segments grow as they are written",)


@pytest.mark.parametrize("setting", REFUSED, ids=lambda setting: setting.name)
def test_what_one_relies_on_is_refused_rather_than_ignored(setting: Setting[Any]) -> None:
    with pytest.raises(ConfigError, match="cannot be followed"):
        BrokerConfig({setting.name: "anything"})
