"""Settings of a process that clients connect to: its listeners and the addresses that it announces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from oncelog.errors import InvalidRequestError
from oncelog_runtime.config.settings import NodeConfig, is_address, setting
from oncelog_runtime.core.listeners import CLIENT, EXTERNAL, INTERNAL, Addresses
from oncelog_runtime.core.security.acl import check_principal

_WILDCARDS = ("0.0.0.0", "::", "[::]")


@dataclass(frozen=True, kw_only=True)
class ServingConfig(NodeConfig):
    """Settings that brokers and coordinators have beside `NodeConfig`. All listeners listen on `listen_host`."""

    client_listen_port: int = setting(0, "port for clients in the cluster; 0 = clients use listen_port too")
    client_address: str = setting(
        "", "host:port that clients use; empty = the host of advertised_address and the port that clients use"
    )
    external_listen_port: int = setting(0, "port for clients outside of the cluster; 0 = none")
    external_address: str = setting(
        "", "host:port that clients outside use; empty = where external_listen_port listens"
    )

    client_tls_cert_file: str = setting(
        "", "PEM certificate shown to clients at client_listen_port and external_listen_port; empty = plaintext"
    )
    client_tls_key_file: str = setting("", "PEM key of client_tls_cert_file, without passphrase")
    client_tls_ca_file: str = setting("", "PEM certificates of the CA that signs clients")
    client_tls_require_certificate: bool = setting(False, "refuse clients without a certificate of client_tls_ca_file")

    require_session_tokens: bool = setting(
        False,
        "refuse writes, commits and aborts by callers that do not show the token of the session or producer id; "
        "when all processes and clients know tokens; with authorization=acl always",
    )
    authorization: Literal["none", "acl"] = setting(
        "none", "none = every caller may do everything; acl = access rules say who may do what (docs/security.md)"
    )
    super_users: tuple[str, ...] = setting((), "principals (User:NAME) that may do everything, whatever the rules say")
    principal_rules: str = setting(
        "",
        "who a client's certificate names, as FIELD:PATTERN=>NAME rules between `;`, FIELD one of uri, dns, cn, ou, o; "
        "empty = its SAN URI, else its SAN DNS name",
    )
    jwt_issuer: str = setting("", "`iss` of the bearer tokens that clients may show; empty = no tokens")
    jwt_audience: str = setting("", "`aud` that these tokens must have")
    jwt_jwks: str = setting("", "keys that sign them: a JWKS file, or an https URL")
    jwt_jwks_ca_file: str = setting("", "PEM certificates of the CA of that URL; empty = the public CAs")
    jwt_jwks_bearer_file: str = setting("", "file with a bearer token to show at that URL (Kubernetes wants one)")
    jwt_principal_claim: str = setting("sub", "claim that names the principal")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_listeners()
        self._check_tls()
        self._check_authorization()

    def _check_authorization(self) -> None:
        own_door = self.has_client_listener or self.external_listen_port != 0
        legal = "none without client_listen_port (or external): at the internal listener every caller is a service"
        self.check("authorization", self.authorization == "none" or own_door, legal)
        for name in ("super_users", "principal_rules", "jwt_issuer"):
            self.check(name, self.authorization == "acl" or not getattr(self, name), "empty without authorization acl")
        for principal in self.super_users:
            self.check("super_users", _is_principal(principal), "User:NAME, User:NAME, ... without *")
        for name in ("jwt_audience", "jwt_jwks"):
            self.check(name, bool(getattr(self, name)) == bool(self.jwt_issuer), "given together with jwt_issuer")

    def _check_tls(self) -> None:
        self.check_together("client_tls_cert_file", "client_tls_key_file")
        name = "client_tls_cert_file"
        own_door = self.has_client_listener or self.external_listen_port != 0
        self.check(name, own_door or not self.client_tls_cert_file, "empty without client_listen_port (or external)")
        trusted = bool(self.client_tls_ca_file and self.client_tls_cert_file)
        legal = "false without client_tls_ca_file and client_tls_cert_file"
        self.check("client_tls_require_certificate", trusted or not self.client_tls_require_certificate, legal)

    def _check_listeners(self) -> None:
        ports = {"listen_port": self.listen_port, "health_port": self.health_port, "metrics_port": self.metrics_port}
        for name in ("client_listen_port", "external_listen_port"):
            port = getattr(self, name)
            self.check(name, 0 <= port <= 65535, "0 to 65535")
            taken = [other for other, value in ports.items() if value == port != 0]
            self.check(name, not taken, f"different from {', '.join(taken)}")
            ports[name] = port
        for name in ("client_address", "external_address"):
            self.check(name, not getattr(self, name) or is_address(getattr(self, name)), "host:port")
        nameless = self.external_listen_port != 0 and self.listen_host in _WILDCARDS and not self.external_address
        self.check("external_address", not nameless, "the host:port that clients outside use: it cannot be guessed")

    @property
    def asks_for_session_tokens(self) -> bool:
        """True when the setting asks for them, and with access rules: rules about transactional ids protect nothing
        without tokens, since a batch names its own id.
        """
        return self.require_session_tokens or self.authorization == "acl"

    @property
    def has_client_door(self) -> bool:
        """True when clients have a listener that services do not use."""
        return self.has_client_listener or self.external_listen_port != 0

    @property
    def has_client_listener(self) -> bool:
        """True when clients in the cluster have a listener of their own."""
        return self.client_listen_port != 0

    def announced(self, listening: Mapping[str, str]) -> Addresses:
        """Returns the addresses to register, from the address of each listener (`RpcServer.listening`)."""
        internal = self.advertised_address or listening[INTERNAL]
        client = self.client_address or internal
        if CLIENT in listening and not self.client_address:
            client = f"{internal.rpartition(':')[0]}:{listening[CLIENT].rpartition(':')[2]}"
        return Addresses(internal, client, self.external_address or listening.get(EXTERNAL, ""))


def _is_principal(text: str) -> bool:
    try:
        check_principal(text, wildcard=False)
    except InvalidRequestError:
        return False
    return True
