"""A broker's settings in force: from its file, from the command line, and changed while it runs."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from highwater.config.catalogue import BROKER_SETTINGS, nearest
from highwater.config.entries import ConfigEntry, ConfigSource, Synonym
from highwater.config.ignored import why_ignored
from highwater.config.listeners import Endpoint, endpoints
from highwater.config.not_yet import NOT_YET, REFUSED
from highwater.config.properties import ConfigError, read_properties
from highwater.config.setting import BadValue, Setting, Update
from highwater.config.settings import node, security
from highwater.model.errors import ErrorCode, KafkaError

T = TypeVar("T")

LISTENER_PREFIX: Final = "listener.name."
_PER_LISTENER: Final = frozenset(
    name for name in BROKER_SETTINGS if name.startswith(("ssl.", "sasl.", "max.connection", "connections.max.reauth"))
)


class _Given(NamedTuple):
    """A value somebody gave, and where."""

    value: Any
    source: ConfigSource


class BrokerConfig:
    """The value of every broker setting; `config[LOG_SEGMENT_BYTES]` is an int.

    A value is looked for, in this order, in: this broker's dynamic configs, the cluster's dynamic configs, the command
    line and the file, the coarser settings it falls back on, the default.
    """

    __slots__ = ("_dynamic", "_in_force", "_listener_given", "_static", "_watchers", "endpoints", "warnings")

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        """Take `given` as the static settings; ConfigError if one cannot be."""
        self._load(_Origin(name, value, f"{name}") for name, value in (given or {}).items())

    @classmethod
    def load(cls, path: Path | None, overrides: Mapping[str, str] | None = None) -> "BrokerConfig":
        """Read the properties file at `path`, if any; `overrides` (of the command line) win over it."""
        config = cls.__new__(cls)
        in_file = read_properties(path) if path is not None else []
        origins = {key: _Origin(key, value, f"{path}:{line}: {key}") for key, value, line in in_file}
        origins |= {key: _Origin(key, value, f"--set {key}") for key, value in (overrides or {}).items()}
        config._load(origins.values())  # noqa: SLF001  (our own instance)
        return config

    def _load(self, origins: Iterable["_Origin"]) -> None:
        self._static: dict[Setting[Any], Any] = {}
        self._dynamic: dict[Setting[Any], list[_Given]] = {}
        self._listener_given: dict[str, str] = {}
        self._watchers: list[Callable[[frozenset[Setting[Any]]], None]] = []
        warnings: list[str] = []
        for name, value, where in origins:
            if (setting := BROKER_SETTINGS.get(name)) is not None:
                self._static[setting] = _parsed(setting, value, where)
                if setting in REFUSED:
                    raise ConfigError(f"{where} {REFUSED[setting]}")
                if setting in NOT_YET:
                    warnings.append(f"{where} has no effect: {NOT_YET[setting]}")
            elif name.startswith(LISTENER_PREFIX):
                self._take_listener_setting(name, value, where)
            elif reason := why_ignored(name):
                warnings.append(f"{where} has no effect: {reason}")
            else:
                guess = nearest(name, BROKER_SETTINGS)
                warnings.append(f"{where} is not a known setting" + (f"; did you mean {guess}?" if guess else ""))
        self.warnings: tuple[str, ...] = tuple(warnings)
        """Lines for whoever started the broker: settings that are unknown or have no effect."""
        self._in_force = {setting: self._resolve(setting) for setting in BROKER_SETTINGS.values()}
        self.endpoints: tuple[Endpoint, ...] = self._check_together()

    def __getitem__(self, setting: Setting[T]) -> T:
        """Return the value in force."""
        value: T = self._in_force[setting]
        return value

    def is_given(self, setting: Setting[Any]) -> bool:
        """Return whether anyone gave a value, rather than leaving the default."""
        return setting in self._static or setting in self._dynamic

    def for_listener(self, listener: str, setting: Setting[T], *, mechanism: str | None = None) -> T:
        """Return the value for one listener (and SASL mechanism), which may differ from the broker's."""
        name = f"{mechanism.lower()}.{setting.name}" if mechanism else setting.name
        given = self._listener_given.get(f"{LISTENER_PREFIX}{listener.lower()}.{name}")
        return self[setting] if given is None else setting.parse(given)

    def on_change(self, watcher: Callable[[frozenset[Setting[Any]]], None]) -> None:
        """Call `watcher` with the settings whose values changed, whenever dynamic configs change."""
        self._watchers.append(watcher)

    def apply_dynamic(self, *, this_broker: Mapping[str, str], all_brokers: Mapping[str, str]) -> None:
        """Take over the dynamic configs as stored; those that no longer make sense are left out.

        They were checked when they were stored, perhaps by another release: a broker must start all the same.
        """
        dynamic: dict[Setting[Any], list[_Given]] = {}
        for stored, source in (
            (this_broker, ConfigSource.DYNAMIC_BROKER),
            (all_brokers, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ):
            for name, value in stored.items():
                setting = BROKER_SETTINGS.get(name)
                if setting is None or setting.update is Update.READ_ONLY:
                    continue
                try:
                    parsed = setting.parse(value)
                except BadValue:
                    continue
                dynamic.setdefault(setting, []).append(_Given(parsed, source))
        before = self._in_force
        self._dynamic = dynamic
        self._in_force = {setting: self._resolve(setting) for setting in BROKER_SETTINGS.values()}
        changed = frozenset(setting for setting, value in self._in_force.items() if before[setting] != value)
        if changed:
            for watcher in self._watchers:
                watcher(changed)

    def synonyms(self, setting: Setting[Any]) -> tuple[Synonym, ...]:
        """Return every place that gives the setting a value, the one in force first."""
        found = [
            Synonym(setting.name, setting.show(given.value), given.source) for given in self._dynamic.get(setting, ())
        ]
        found += self._static_synonyms(setting)
        for fallback in setting.fallbacks:
            found += self._static_synonyms(fallback.setting)
        silent = setting
        if setting.fallbacks and setting.fallbacks[-1].setting.default is not None:
            silent = setting.fallbacks[-1].setting  # Kafka's tools show log.retention.hours=168 as the default
        if silent.default is not None:
            found.append(Synonym(silent.name, silent.show(silent.default), ConfigSource.DEFAULT))
        return tuple(found)

    def describe(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Return the named settings (all, for None) as DescribeConfigs shows them."""
        wanted = BROKER_SETTINGS if names is None else [name for name in names if name in BROKER_SETTINGS]
        return [self._entry(BROKER_SETTINGS[name]) for name in wanted]

    def _entry(self, setting: Setting[Any]) -> ConfigEntry:
        synonyms = self.synonyms(setting)
        return ConfigEntry(
            name=setting.name,
            value=setting.show(self._in_force[setting]),
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
            wire_type=setting.parse.wire_type,
            is_read_only=setting.update is Update.READ_ONLY,
            is_sensitive=setting.sensitive,
            synonyms=synonyms,
            doc=setting.doc,
        )

    def _static_synonyms(self, setting: Setting[Any]) -> list[Synonym]:
        if setting not in self._static:
            return []
        return [Synonym(setting.name, setting.show(self._static[setting]), ConfigSource.STATIC_BROKER)]

    def _resolve(self, setting: Setting[Any]) -> Any:
        if setting in self._dynamic:
            return self._dynamic[setting][0].value
        if setting in self._static:
            return self._static[setting]
        for fallback in setting.fallbacks:
            given = self._static.get(fallback.setting)
            if given is not None:
                return fallback.convert(given)
        return setting.default

    def _take_listener_setting(self, name: str, value: str, where: str) -> None:
        _listener, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
        plain = rest if rest in _PER_LISTENER else rest.partition(".")[2]
        if plain not in _PER_LISTENER:
            raise ConfigError(f"{where}: {rest!r} cannot be set for one listener")
        _parsed(BROKER_SETTINGS[plain], value, where)
        self._listener_given[name.lower()] = value

    def _check_together(self) -> tuple[Endpoint, ...]:
        """Return the endpoints to serve; ConfigError if settings that are fine alone do not fit together."""
        broker_id, node_id = self._static.get(node.BROKER_ID), self._static.get(node.NODE_ID)
        if None not in {broker_id, node_id} and broker_id != node_id:
            raise ConfigError(
                f"broker.id is {broker_id} and node.id is {node_id}: they are one thing, give one of them"
            )
        user, password = self[node.ZOOKEEPER_DIGEST_USERNAME], self[node.ZOOKEEPER_DIGEST_PASSWORD]
        if (user is None) is not (password is None):
            raise ConfigError("zookeeper.digest.username and zookeeper.digest.password go together: give both")
        if self[node.ZOOKEEPER_SET_ACL] and user is None:
            raise ConfigError("zookeeper.set.acl=true needs zookeeper.digest.username: somebody must be let in")
        advertised = self[node.ADVERTISED_LISTENERS]
        try:
            served = endpoints(
                self[node.LISTENERS],
                advertised or (),
                self[node.LISTENER_SECURITY_PROTOCOL_MAP],
                left_out=frozenset(name.upper() for name in self[node.CONTROLLER_LISTENER_NAMES]),
            )
        except BadValue as error:
            raise ConfigError(str(error)) from None
        names = [endpoint.name for endpoint in served]
        between = self[node.INTER_BROKER_LISTENER_NAME]
        if between is not None and between.upper() not in names:
            raise ConfigError(f"inter.broker.listener.name is {between}, which listeners does not have")
        return served

    @property
    def inter_broker_endpoint(self) -> Endpoint:
        """Return the endpoint that other brokers connect to."""
        named = self[node.INTER_BROKER_LISTENER_NAME]
        if named is not None:
            return next(endpoint for endpoint in self.endpoints if endpoint.name == named.upper())
        protocol = self[security.SECURITY_INTER_BROKER_PROTOCOL]
        matching = (endpoint for endpoint in self.endpoints if endpoint.security_protocol == protocol)
        return next(matching, self.endpoints[0])


class _Origin(NamedTuple):
    name: str
    value: str
    where: str


def _parsed(setting: Setting[T], value: str, where: str) -> T:
    try:
        return setting.parse(value)
    except BadValue as error:
        shown = "the value given" if setting.sensitive else repr(value)
        raise ConfigError(f"{where} {error}; it is {shown}") from None


def check_dynamic(configs: Mapping[str, str | None], *, one_broker: bool) -> dict[str, str]:
    """Return `configs` as they may be stored for one broker, or for all; a KafkaError names the first that may not."""
    checked: dict[str, str] = {}
    for name, value in configs.items():
        setting = BROKER_SETTINGS.get(name)
        if setting is None:
            guess = nearest(name, BROKER_SETTINGS)
            hint = f"; did you mean {guess}?" if guess else ""
            raise KafkaError(f"{name} is not a broker setting{hint}", code=ErrorCode.INVALID_CONFIG)
        if setting.update is Update.READ_ONLY:
            raise KafkaError(f"{name} cannot be changed while the broker runs", code=ErrorCode.INVALID_REQUEST)
        if setting.update is Update.PER_BROKER and not one_broker:
            raise KafkaError(f"{name} must be set for one broker, not for all", code=ErrorCode.INVALID_REQUEST)
        if value is None:
            raise KafkaError(f"{name} needs a value", code=ErrorCode.INVALID_CONFIG)
        try:
            setting.parse(value)
        except BadValue as error:
            raise KafkaError(f"{name} {error}", code=ErrorCode.INVALID_CONFIG) from None
        checked[name] = value
    return checked
