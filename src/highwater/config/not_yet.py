"""Settings that are declared and that nothing acts upon yet.

Given in a file, they bring a warning, or an error where quietly going on would be dangerous. A test keeps this list
true: a setting is read somewhere, or it is here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from highwater.config.setting import Setting
from highwater.config.settings import compaction, groups, log, replication, security

_ONE_BROKER: Final = "this release runs one broker, with one replica of each partition"
_PLAINTEXT_ONLY: Final = "connections are neither encrypted nor authenticated yet"
_EVERYTHING_ALLOWED: Final = "everybody may do everything, for now"
_NO_QUOTAS: Final = "there are no quotas yet"

NOT_YET: Final[Mapping[Setting[Any], str]] = MappingProxyType(
    {
        log.LOG_PREALLOCATE: "segments grow as they are written",
        compaction.LOG_CLEANER_IO_BUFFER_SIZE: "compaction reads and writes a megabyte at a time",
        replication.REPLICA_SOCKET_RECEIVE_BUFFER_BYTES: _ONE_BROKER,
        groups.GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS: "patterns are matched anew when topics come or go",
        security.SSL_KEYSTORE_TYPE: _PLAINTEXT_ONLY,
        security.SSL_KEYSTORE_LOCATION: _PLAINTEXT_ONLY,
        security.SSL_KEYSTORE_KEY: _PLAINTEXT_ONLY,
        security.SSL_KEYSTORE_CERTIFICATE_CHAIN: _PLAINTEXT_ONLY,
        security.SSL_KEY_PASSWORD: _PLAINTEXT_ONLY,
        security.SSL_TRUSTSTORE_TYPE: _PLAINTEXT_ONLY,
        security.SSL_TRUSTSTORE_LOCATION: _PLAINTEXT_ONLY,
        security.SSL_TRUSTSTORE_CERTIFICATES: _PLAINTEXT_ONLY,
        security.SSL_CLIENT_AUTH: _PLAINTEXT_ONLY,
        security.SSL_ENABLED_PROTOCOLS: _PLAINTEXT_ONLY,
        security.SSL_CIPHER_SUITES: _PLAINTEXT_ONLY,
        security.SSL_PRINCIPAL_MAPPING_RULES: _PLAINTEXT_ONLY,
        security.SASL_ENABLED_MECHANISMS: _PLAINTEXT_ONLY,
        security.SASL_MECHANISM_INTER_BROKER_PROTOCOL: _PLAINTEXT_ONLY,
        security.SASL_JAAS_CONFIG: _PLAINTEXT_ONLY,
        security.SASL_SERVER_MAX_RECEIVE_SIZE: _PLAINTEXT_ONLY,
        security.CONNECTIONS_MAX_REAUTH_MS: _PLAINTEXT_ONLY,
        security.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS: _PLAINTEXT_ONLY,
        security.SUPER_USERS: _EVERYTHING_ALLOWED,
        security.ALLOW_EVERYONE_IF_NO_ACL_FOUND: _EVERYTHING_ALLOWED,
        security.QUOTA_WINDOW_NUM: _NO_QUOTAS,
        security.QUOTA_WINDOW_SIZE_SECONDS: _NO_QUOTAS,
        security.MAX_CONNECTION_CREATION_RATE: _NO_QUOTAS,
    }
)
"""Each with the reason, for the warning."""

REFUSED: Final[Mapping[Setting[Any], str]] = MappingProxyType(
    {
        security.AUTHORIZER_CLASS_NAME: f"cannot be followed: {_EVERYTHING_ALLOWED}",
    }
)
"""Whoever sets one of these relies on it: starting without it would be worse than not starting."""
