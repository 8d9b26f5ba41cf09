"""TLS, SASL, authorization and quotas."""

from typing import Final

from highwater.config.listeners import SECURITY_PROTOCOLS
from highwater.config.parsers import (
    INT32_MAX,
    boolean,
    byte_count,
    choice,
    integer,
    milliseconds,
    optional,
    secret,
    text,
    word_list,
)
from highwater.config.setting import Setting, Update

SECURITY_INTER_BROKER_PROTOCOL: Final = Setting(
    name="security.inter.broker.protocol",
    parse=choice(*SECURITY_PROTOCOLS),
    default="PLAINTEXT",
    doc="How the listener between brokers is secured, when inter.broker.listener.name does not name it.",
)

SSL_KEYSTORE_TYPE: Final = Setting(
    name="ssl.keystore.type",
    parse=choice("PEM"),
    default="PEM",
    doc="The format of the broker's key and certificate. Only PEM: a JKS file can be turned into one with keytool and "
    "openssl.",
)

SSL_KEYSTORE_LOCATION: Final[Setting[str | None]] = Setting(
    name="ssl.keystore.location",
    parse=optional(text()),
    default=None,
    doc="A PEM file with the broker's private key and its certificate chain.",
)

SSL_KEYSTORE_KEY: Final[Setting[str | None]] = Setting(
    name="ssl.keystore.key",
    parse=optional(secret()),
    default=None,
    sensitive=True,
    doc="The broker's private key itself, as PEM text, instead of a file.",
)

SSL_KEYSTORE_CERTIFICATE_CHAIN: Final[Setting[str | None]] = Setting(
    name="ssl.keystore.certificate.chain",
    parse=optional(secret()),
    default=None,
    sensitive=True,
    doc="The broker's certificate chain itself, as PEM text, instead of a file.",
)

SSL_KEY_PASSWORD: Final[Setting[str | None]] = Setting(
    name="ssl.key.password",
    parse=optional(secret()),
    default=None,
    sensitive=True,
    doc="The password of the broker's private key.",
)

SSL_TRUSTSTORE_TYPE: Final = Setting(
    name="ssl.truststore.type",
    parse=choice("PEM"),
    default="PEM",
    doc="The format of the trusted certificates. Only PEM.",
)

SSL_TRUSTSTORE_LOCATION: Final[Setting[str | None]] = Setting(
    name="ssl.truststore.location",
    parse=optional(text()),
    default=None,
    doc="A PEM file with the certificates of those who may sign clients' certificates.",
)

SSL_TRUSTSTORE_CERTIFICATES: Final[Setting[str | None]] = Setting(
    name="ssl.truststore.certificates",
    parse=optional(secret()),
    default=None,
    sensitive=True,
    doc="The trusted certificates themselves, as PEM text, instead of a file.",
)

SSL_CLIENT_AUTH: Final = Setting(
    name="ssl.client.auth",
    parse=choice("none", "requested", "required"),
    default="none",
    doc="Whether clients must show a certificate.",
)

SSL_ENABLED_PROTOCOLS: Final = Setting(
    name="ssl.enabled.protocols",
    parse=word_list(of=choice("TLSv1.2", "TLSv1.3"), at_least_one=True),
    default=("TLSv1.2", "TLSv1.3"),
    doc="The TLS versions that clients may use.",
)

SSL_CIPHER_SUITES: Final = Setting(
    name="ssl.cipher.suites",
    parse=word_list(),
    default=(),
    doc="The TLS 1.2 ciphers that clients may use, by their OpenSSL names; the library's own choice when empty.",
)

SSL_PRINCIPAL_MAPPING_RULES: Final = Setting(
    name="ssl.principal.mapping.rules",
    parse=text(),
    default="DEFAULT",
    doc="How a certificate's distinguished name becomes a user name, as RULE:pattern/replacement/ entries.",
)

SASL_ENABLED_MECHANISMS: Final = Setting(
    name="sasl.enabled.mechanisms",
    parse=word_list(of=choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    default=(),
    doc="The ways in which clients may prove who they are on SASL listeners. Apache Kafka's default is GSSAPI, which "
    "is not served here.",
)

SASL_MECHANISM_INTER_BROKER_PROTOCOL: Final[Setting[str | None]] = Setting(
    name="sasl.mechanism.inter.broker.protocol",
    parse=optional(choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    default=None,
    doc="The way in which brokers prove to each other who they are.",
)

SASL_JAAS_CONFIG: Final[Setting[str | None]] = Setting(
    name="sasl.jaas.config",
    parse=optional(secret()),
    default=None,
    sensitive=True,
    doc="Users and passwords in JAAS form, for PLAIN and for this broker's own log-in to others. Usually given for one "
    "listener and mechanism: listener.name.<listener>.<mechanism>.sasl.jaas.config.",
)

SASL_SERVER_MAX_RECEIVE_SIZE: Final = Setting(
    name="sasl.server.max.receive.size",
    parse=byte_count(at_least=1),
    default=512 * 1024,
    doc="The largest request that is read before a client has proved who it is.",
)

CONNECTIONS_MAX_REAUTH_MS: Final = Setting(
    name="connections.max.reauth.ms",
    parse=milliseconds(),
    default=0,
    doc="Clients on SASL listeners must prove again who they are after this long; 0 for never.",
)

CONNECTION_FAILED_AUTHENTICATION_DELAY_MS: Final = Setting(
    name="connection.failed.authentication.delay.ms",
    parse=milliseconds(at_most=INT32_MAX),
    default=100,
    doc="How long to hold a connection whose log-in failed before closing it, to slow down guessing.",
)

AUTHORIZER_CLASS_NAME: Final[Setting[str | None]] = Setting(
    name="authorizer.class.name",
    parse=optional(text()),
    default=None,
    doc="Any value switches access control on: everything is refused unless an ACL allows it. Kafka's own class names "
    "are accepted and all mean the same.",
)

SUPER_USERS: Final = Setting(
    name="super.users",
    parse=word_list(separator=";"),
    default=(),
    doc="Users who may do everything, as User:name separated by semicolons.",
)

ALLOW_EVERYONE_IF_NO_ACL_FOUND: Final = Setting(
    name="allow.everyone.if.no.acl.found",
    parse=boolean(),
    default=False,
    doc="Allow everybody what no ACL speaks about.",
)

QUOTA_WINDOW_NUM: Final = Setting(
    name="quota.window.num",
    parse=integer(at_least=1),
    default=11,
    doc="Over how many windows a client's rate is averaged.",
)

QUOTA_WINDOW_SIZE_SECONDS: Final = Setting(
    name="quota.window.size.seconds",
    parse=integer(at_least=1, unit="seconds"),
    default=1,
    doc="How long each of those windows is.",
)

MAX_CONNECTION_CREATION_RATE: Final = Setting(
    name="max.connection.creation.rate",
    parse=integer(at_least=0),
    default=INT32_MAX,
    update=Update.CLUSTER_WIDE,
    doc="The most connections to accept in a second; further ones wait.",
)
