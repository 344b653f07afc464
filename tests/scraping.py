"""A client of the metrics port, for tests: plain HTTP/1.1, with chunks joined."""

from __future__ import annotations

import asyncio


async def ask(address: str, request: str) -> tuple[str, dict[str, str], str]:
    """(status line, headers, body with chunks joined)"""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request.encode())
    data = (await asyncio.wait_for(reader.read(), 30)).decode()
    writer.close()
    head, _, body = data.partition("\r\n\r\n")
    status, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if body and headers.get("transfer-encoding") == "chunked":
        body = unchunk(body)
    return status, headers, body


def unchunk(body: str) -> str:
    whole = ""
    while True:
        size, _, rest = body.partition("\r\n")
        length = int(size, 16)
        if length == 0:
            return whole
        whole, body = whole + rest[:length], rest[length + 2 :]


def get(path: str = "/metrics", accept: str = "") -> str:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"
