"""Tokens, keys, users and certificates change while a cluster of real processes serves, with TLS and without a restart.

Who is refused is told why; who shows something new goes on without a lost or doubled record.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from oncelog import errors
from oncelog.client.admin.admin import RoleBinding
from oncelog.sync import Client
from oncelog_cli.laptop.local_cluster import LocalCluster, LocalTls
from tests.certificates import Authority
from tests.integration.settled import settled_ends

jwt = pytest.importorskip("jwt")

KEYS = {name: rsa.generate_private_key(65537, 2048) for name in ("k1", "k2")}
PUBLIC_PEM = (
    KEYS["k1"].public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
)
BROKER = "broker-0"


def claims(sub: str = "ann", lives_s: float = 3600, **changes: Any) -> dict[str, Any]:
    return {"iss": "https://issuer", "aud": "oncelog", "sub": sub, "exp": time.time() + lives_s, **changes}


def token(sub: str = "ann", lives_s: float = 3600, key: str = "k1", **changes: Any) -> str:
    made: str = jwt.encode(claims(sub, lives_s, **changes), KEYS[key], algorithm="RS256", headers={"kid": key})
    return made


def unsigned(header: dict[str, Any], sign: Callable[[bytes], bytes] = lambda _: b"") -> str:
    parts = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims())]
    head = b".".join(parts)
    return f"{head.decode()}.{urlsafe_b64encode(sign(head)).rstrip(b'=').decode()}"


class World:
    """A cluster whose issuer's keys stand in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.jwks = folder / "jwks.json"
        self.publish("k1")
        flags = {
            "authorization": "acl",
            "super-users": "User:root",
            "jwt-issuer": "https://issuer",
            "jwt-audience": "oncelog",
            "jwt-jwks": str(self.jwks),
        }
        self.cluster = LocalCluster(
            folder / "cluster",
            brokers=1,
            coordinators=1,
            doors=True,
            tls=LocalTls(
                inside=self.authority.issue("inside", "127.0.0.1"), clients=self.authority.issue("clients", "127.0.0.1")
            ),
            serving_flags=tuple(word for name, value in flags.items() for word in (f"--{name}", value)),
            identity={"token_provider": lambda: token("root", key=self.newest)},
        )
        self.newest = "k1"

    def publish(self, *names: str) -> None:
        keys = [
            {**jwt.algorithms.RSAAlgorithm.to_jwk(KEYS[name].public_key(), as_dict=True), "kid": name} for name in names
        ]
        new = self.jwks.with_suffix(".new")
        new.write_text(json.dumps({"keys": keys}))
        new.rename(self.jwks)

    def client(self, **identity: Any) -> Client:
        tls = {"security_protocol": "SSL", "ssl_cafile": str(self.authority.ca_path)}
        options = {"default_api_timeout_ms": 30_000, **tls, **identity}
        return Client(self.cluster.bootstrap_servers, **options)

    def root(self) -> Client:
        return self.client(**self.cluster.identity)

    def refusal(self, **identity: Any) -> errors.OncelogError:
        with pytest.raises(errors.OncelogError) as caught, self.client(**identity) as nobody:
            nobody.admin.list_topics()
        return caught.value


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("identities"))
    with made.cluster:
        with made.root() as root:
            root.admin.create_topic("shop.orders", partitions=1, replication_factor=1)
            root.admin.create_acls(bindings=[RoleBinding("User:ann", "owner", "shop.", "PREFIXED")])
        yield made


def written(world: World) -> list[bytes | None]:
    found: list[bytes | None] = []
    with world.root() as root, root.consumer("shop.orders", auto_offset_reset="earliest") as consumer:
        end = settled_ends(root, "shop.orders")[0]
        while consumer.position(("shop.orders", 0)) < end:
            found += [record.value for record in consumer.getmany(timeout_ms=1_000)]
    return found


@pytest.mark.parametrize(
    ("shown", "error", "words"),
    [
        (lambda: token(lives_s=-60), errors.TokenExpiredError, "expired"),
        (lambda: token(aud="other"), errors.AuthenticationError, "another audience"),
        (lambda: token(iss="https://evil"), errors.AuthenticationError, "another issuer"),
        (lambda: token(key="k2"), errors.AuthenticationError, "does not publish"),
        (lambda: unsigned({"alg": "none", "kid": "k1"}), errors.AuthenticationError, "algorithm"),
        (
            lambda: unsigned(
                {"alg": "HS256", "kid": "k1"}, lambda head: hmac.new(PUBLIC_PEM, head, hashlib.sha256).digest()
            ),
            errors.AuthenticationError,
            "algorithm",
        ),
        (lambda: "x.y.z", errors.AuthenticationError, "no token"),
        (lambda: "x" * (11 << 10), errors.AuthenticationError, ""),
        (lambda: "x" * (1 << 20), errors.AuthenticationError, "holds no token"),
    ],
    ids=["expired", "audience", "issuer", "unknown key", "none", "HS256", "malformed", "huge", "beyond all bounds"],
)
def test_a_token_that_is_not_good_is_refused_by_name_and_makes_nobody_anonymous(
    world: World, shown: Callable[[], str], error: type[errors.OncelogError], words: str
) -> None:
    given = shown()
    refusal = world.refusal(token=given, default_api_timeout_ms=20_000)
    text = str(refusal)
    assert isinstance(refusal, error) or error.code.name in text or words in text, text
    assert words in text
    assert given not in text


def test_a_client_whose_tokens_end_goes_on_with_new_ones_and_loses_nothing(world: World) -> None:
    given = []

    def provide() -> str:
        given.append(token(lives_s=4))
        return given[-1]

    before = len(written(world))
    sent = []
    with world.client(token_provider=provide) as ann, ann.producer() as producer:
        end = time.monotonic() + 14
        while time.monotonic() < end:
            sent.append(b"%d" % len(sent))
            producer.send_and_wait("shop.orders", value=sent[-1])
            time.sleep(0.02)
        with ann.producer(transactional_id="shop.t") as transactional:
            for number in range(3):
                with transactional.transaction() as transaction:
                    transaction.send("shop.orders", value=b"t%d" % number)
                sent.append(b"t%d" % number)
                time.sleep(2)
    assert len(given) >= 3
    assert written(world)[before:] == sent


def test_a_token_file_is_read_again_for_the_next_link(world: World, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token(lives_s=4))
    with world.client(token_file=str(file)) as ann:
        assert ann.admin.list_topics()
        file.write_text(token())
        time.sleep(5)
        assert ann.admin.list_topics()


def test_a_key_that_is_taken_back_ends_what_it_let_in_and_a_new_one_lets_in(world: World) -> None:
    with world.client(token=token()) as old, world.client(token_provider=lambda: token(key=world.newest)) as renewed:
        assert old.admin.list_topics()
        assert renewed.admin.list_topics()
        world.publish("k2")
        world.newest = "k2"
        try:
            refusal = _until_refused(old, 60)
            assert isinstance(
                refusal, errors.AuthenticationError | errors.TokenExpiredError | errors.ClusterUnreachableError
            )
            assert renewed.admin.list_topics(), "the same client, with a new token"
            assert isinstance(world.refusal(token=token()), errors.AuthenticationError)
        finally:
            world.publish("k1", "k2")
    end = time.monotonic() + 60
    while True:
        try:
            with world.client(token=token()) as again:
                assert again.admin.list_topics()
            return
        except errors.AuthenticationError:
            assert time.monotonic() < end
            time.sleep(1)


def test_while_the_keys_are_away_those_that_were_read_last_count(world: World) -> None:
    kept = world.jwks.read_text()
    with world.client(token=token()) as ann:
        assert ann.admin.list_topics()
        world.jwks.unlink()
        try:
            time.sleep(12)
            assert ann.admin.list_topics()
            with world.client(token=token(lives_s=1800)) as new:
                assert new.admin.list_topics()
        finally:
            world.jwks.write_text(kept)


def test_a_process_starts_without_keys_and_those_who_wait_are_let_in_when_they_come(world: World) -> None:
    kept = world.jwks.read_text()
    world.jwks.unlink()

    def listed() -> list[str]:
        with world.client(token=token()) as ann:
            return list(ann.admin.list_topics())

    try:
        world.cluster.processes[BROKER].kill()
        world.cluster.restart(BROKER)
        refusal = world.refusal(token=token(), default_api_timeout_ms=10_000)
        assert refusal.retriable
        assert "could not read the keys of tokens yet" in str(refusal)
        with ThreadPoolExecutor() as threads:
            listing = threads.submit(listed)
            assert not wait([listing], timeout=2).done, "it waits"
            world.jwks.write_text(kept)
            assert listing.result()
    finally:
        world.jwks.write_text(kept)
    world.cluster.wait_healthy()


def test_a_user_whose_password_changes_or_who_goes_is_shown_out(world: World) -> None:
    with world.root() as root:
        root.admin.create_user("eve", "first")
        root.admin.create_acls(bindings=[RoleBinding("User:eve", "reader", "shop.", "PREFIXED")])
        with world.client(username="eve", password="first") as eve:
            assert eve.admin.list_topics()
            root.admin.set_password("eve", "second")
            assert isinstance(_until_refused(eve), errors.AuthenticationError)
            assert isinstance(world.refusal(username="eve", password="first"), errors.AuthenticationError)
        with world.client(username="eve", password="second") as eve:
            assert eve.admin.list_topics()
            root.admin.delete_user("eve")
            assert isinstance(_until_refused(eve), errors.AuthenticationError)


def _until_refused(client: Client, seconds: float = 30) -> errors.OncelogError:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            client.admin.list_topics()
        except errors.OncelogError as error:
            return error
        time.sleep(0.1)
    raise AssertionError("it was let in until the end")


def test_keys_from_a_url_that_is_down_at_the_start_and_away_later(tmp_path: Path) -> None:
    """In this process, over real TLS: what the file does above, with an issuer that answers, falls silent and comes back."""
    import asyncio

    from oncelog_runtime.adapters.grpc import token_keys
    from oncelog_runtime.adapters.grpc.tokens import TokenVerifier
    from oncelog_runtime.adapters.system import SystemClock

    class Issuer(BaseHTTPRequestHandler):
        answers = True

        def do_GET(self) -> None:
            self.send_response(200 if Issuer.answers else 503)
            self.end_headers()
            key = jwt.algorithms.RSAAlgorithm.to_jwk(KEYS["k1"].public_key(), as_dict=True)
            self.wfile.write(json.dumps({"keys": [{**key, "kid": "k1"}]}).encode() if Issuer.answers else b"")

        def log_message(self, *_args: Any) -> None:
            pass

    class Clock(SystemClock):
        ahead_ms = 0

        def monotonic_ms(self) -> int:
            return super().monotonic_ms() + self.ahead_ms

    server = HTTPServer(("127.0.0.1", 0), Issuer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    clock = Clock()
    keys = token_keys.TokenKeys(f"http://127.0.0.1:{server.server_port}/keys", clock)
    verifier = TokenVerifier(keys, clock, "https://issuer", "oncelog")

    async def main() -> None:
        Issuer.answers = False
        with pytest.raises(errors.MetadataUnavailableError, match="could not read"):
            await verifier.verify(token())
        Issuer.answers = True
        clock.ahead_ms += token_keys.RETRY_MIN_MS
        assert (await verifier.verify(token())).principal == "User:ann"
        Issuer.answers = False
        clock.ahead_ms += token_keys.RENEW_EVERY_MS
        assert (await verifier.verify(token("bob"))).principal == "User:bob"

    try:
        asyncio.run(main())
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_clients_certificate_that_has_ended_lets_nobody_in_and_a_renewed_one_does(tmp_path: Path) -> None:
    inside, outside = Authority(tmp_path, "inside-ca"), Authority(tmp_path, "outside-ca")
    cluster = LocalCluster(
        tmp_path / "cluster",
        brokers=1,
        coordinators=1,
        doors=True,
        tls=LocalTls(inside=inside.issue("inside", "127.0.0.1"), clients=outside.issue("clients", "127.0.0.1")),
        serving_flags=(
            "--client-tls-require-certificate",
            "true",
            "--authorization",
            "acl",
            "--super-users",
            "User:root",
        ),
    )
    shown = outside.issue("root", "root")
    cluster.identity = {"ssl_certfile": shown.cert, "ssl_keyfile": shown.key}
    options = {**cluster.client_options, "default_api_timeout_ms": 20_000}
    with cluster:
        mine = outside.issue("mine", "root", expires_in=timedelta(seconds=12))
        options |= {"ssl_certfile": mine.cert, "ssl_keyfile": mine.key}
        with Client(cluster.bootstrap_servers, **options) as root:
            assert root.admin.cluster_health().brokers
            time.sleep(13)
            with pytest.raises(errors.OncelogError) as caught, Client(cluster.bootstrap_servers, **options):
                pass
            assert "certificate" in str(caught.value)
            outside.issue("mine", "root")
            with Client(cluster.bootstrap_servers, **options) as renewed:
                assert renewed.admin.cluster_health().brokers
            assert root.admin.cluster_health().brokers, (
                "files are read again for each link, and those that stand live on"
            )
