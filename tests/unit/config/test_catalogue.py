"""Rules that every setting keeps."""

from typing import Any

import pytest

from highwater.config.catalogue import BROKER_SETTINGS, THEMES, TOPIC_SETTINGS, settings_of
from highwater.config.ignored import why_ignored
from highwater.config.setting import Setting, Update

EVERY_SETTING = [setting for theme in THEMES for setting in settings_of(theme)]


@pytest.mark.parametrize("setting", EVERY_SETTING, ids=lambda setting: setting.name)
def test_the_default_reads_back_as_itself(setting: Setting[Any]) -> None:
    """What DescribeConfigs shows can be put into a file again."""
    if setting.default is not None:
        assert setting.parse(setting.parse.show(setting.default)) == setting.default


@pytest.mark.parametrize("setting", EVERY_SETTING, ids=lambda setting: setting.name)
def test_the_sentence_is_one(setting: Setting[Any]) -> None:
    assert setting.doc.endswith(".")
    assert setting.doc[0].isupper() or setting.doc.startswith("log.") or setting.doc.startswith("min.")


def test_names_are_unique() -> None:
    names = [setting.name for setting in EVERY_SETTING]
    assert len(names) == len(set(names))


def test_what_is_ignored_is_not_also_a_setting() -> None:
    """`metrics.` is ignored as a prefix but `metrics.listener` is ours: declared settings are looked up first."""
    assert {name for name in BROKER_SETTINGS if why_ignored(name)} == {"metrics.listener"}


def test_what_a_topic_may_override_can_change_at_run_time() -> None:
    assert all(s.update is Update.CLUSTER_WIDE for s in TOPIC_SETTINGS.values() if not s.topic_only)


def test_fallbacks_agree_on_the_default() -> None:
    """168 hours and 7 days must be the same promise."""
    for setting in EVERY_SETTING:
        for fallback in setting.fallbacks:
            coarse = fallback.setting.default
            assert coarse is None or fallback.convert(coarse) == setting.default
