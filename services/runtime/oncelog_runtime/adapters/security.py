"""Builds authentication and authorization from the settings; the one place that connects their parts."""

from __future__ import annotations

import logging

from oncelog.ports import WallClock
from oncelog_runtime.adapters.grpc.authentication import Authentication
from oncelog_runtime.config.serving_config import ServingConfig
from oncelog_runtime.config.settings import NodeConfig
from oncelog_runtime.core.security.access import Policy
from oncelog_runtime.core.security.certificate_rules import DEFAULT_RULES, parse_rules, parse_service_rules
from oncelog_runtime.observability.metrics import NodeMetrics
from oncelog_runtime.security.audit import AuditTrail
from oncelog_runtime.security.authorizer import Authorizer
from oncelog_runtime.serving.quotas import Quotas

log = logging.getLogger(__name__)


def build_security(
    config: NodeConfig, clock: WallClock, metrics: NodeMetrics, quotas: Quotas
) -> tuple[Authorizer | None, Authentication | None]:
    """Returns (authorizer, authentication); (None, None) = callers are neither identified nor checked. Raises
    `ConfigError`.
    """
    service_rules = parse_service_rules(config.service_rules, "service_rules")
    authorizer, principal_rules, tokens = None, parse_rules("", ""), None
    if isinstance(config, ServingConfig) and config.authorization == "acl":
        policy = Policy(config.super_users)
        policy.audit = AuditTrail(clock, metrics)
        authorizer = Authorizer(policy, quotas)
        principal_rules = parse_rules(config.principal_rules or DEFAULT_RULES, "principal_rules")
        _warn(config)
        if config.jwt_issuer:
            from oncelog_runtime.adapters.grpc.token_keys import (
                TokenKeys,  # late: without tokens their library is not loaded
            )
            from oncelog_runtime.adapters.grpc.tokens import TokenVerifier

            keys = TokenKeys(config.jwt_jwks, clock, config.jwt_jwks_ca_file, config.jwt_jwks_bearer_file)
            tokens = TokenVerifier(keys, clock, config.jwt_issuer, config.jwt_audience, config.jwt_principal_claim)
    if authorizer is None and not service_rules:
        return None, None
    return authorizer, Authentication(authorizer, clock, principal_rules, service_rules, tokens)


def _warn(config: ServingConfig) -> None:
    if not config.tls_cert_file:
        log.warning(
            "authorization is on, but the internal listener is plaintext: every program that reaches it counts as a service "
            "and may do everything"
        )
    elif not config.service_rules:
        log.warning("service_rules is empty: every certificate of tls_ca_file may call every method of the services")
    if not config.client_tls_cert_file:
        log.warning("authorization is on, but clients come in plaintext: tokens can be read on the way")
