"""Whatever is wrong with a request over HTTP: the reference's error, a status that fits, no 500.

Each route of the gateway's own is asked with each kind of mistake.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.stored_things import JSON, LISTS, NAMES, OTHERS, ROUTES, Asked, stored_things

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
async def on() -> AsyncIterator[Asked]:
    async with stored_things() as asked:
        yield asked


@pytest.mark.parametrize("path", ROUTES)
async def test_a_method_that_a_path_does_not_have(on: Asked, path: str) -> None:
    has = set(ROUTES[path].split())
    has |= {"HEAD"} if "GET" in has else set()
    has |= {"GET", "HEAD"} if path == "/responses" else set()  # it opens a WebSocket
    for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - has:
        if path in NAMES and method in ("GET", "HEAD", "DELETE"):
            continue
        answer, _ = await on.ask(method, path)
        assert answer.status == 405, (method, path)
        assert has <= set(answer.headers["allow"].split(", "))


NOWHERE = """
/ /responses/ /responses/{r}/ /responses/{r}/nothing /responses/{r}/cancel/ //responses /Responses
/responses/{r}/steers/x /conversations/ /conversations/{c}/ /conversations/{c}/items/{i}/more
/steers /files
"""


@pytest.mark.parametrize("path", ["", *NOWHERE.split()])
async def test_a_path_that_is_none(on: Asked, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "PUT"):
        await on.refused(404, method, path, b"{}" if method == "POST" else None, **JSON)


async def test_without_a_key_nothing_is_said(on: Asked) -> None:
    for path, methods in ROUTES.items():
        for method in methods.split():
            for key in ("", "Bearer", "Bearer sk-3", "Basic c2stMTo="):
                error = await on.refused(401, method, path, b"{", authorization=key, **JSON)
                assert error["code"] in ("missing_api_key", "invalid_api_key")


async def test_what_is_of_another_key_is_as_what_does_not_exist(on: Asked) -> None:
    for path, methods in ROUTES.items():
        if "{" not in path or "steers" in path:
            continue
        for method in methods.split():
            body = b'{"metadata":{},"items":[]}'
            error = await on.refused(404, method, path, body, **OTHERS, **JSON)
            nobody = path
            for name, known in on.names.items():
                nobody = nobody.replace(f"{{{name}}}", known[:-4] + "0000")
            twin = await on.refused(404, method, nobody, body, **JSON)
            assert (error["code"], error["param"]) == (twin["code"], twin["param"])


async def test_a_parent_and_a_conversation_of_another_key(on: Asked) -> None:
    for field, name, status in (("previous_response_id", "r", 400), ("conversation", "c", 404)):
        body = json.dumps({"model": "m", "input": "x", field: on.names[name]}).encode()
        for path in ("/responses", "/responses/input_tokens"):
            error = await on.refused(status, "POST", path, body, **OTHERS, **JSON)
            assert error["param"] == field


IDS = ["x", "resp_none", "msg_x", "...", "resp:1", "*", "0", "null", "-1", "%20", "%00", "%FF"]
IDS += ["%7B%7D", "%F0%9F%98%80", "%E2%80%AE"]
IDS += [f"resp_{'0' * 32}", f"conv_{'0' * 32}", "a" * 4000]


@pytest.mark.parametrize("name", IDS)
async def test_an_id_that_is_none(on: Asked, name: str) -> None:
    for path, methods in ROUTES.items():
        if "{" not in path:
            continue
        for method in methods.split():
            whole = path.replace("{i}", name) if "{i}" in path else path
            for known in "rbc":
                whole = whole.replace(f"{{{known}}}", known if "{i}" in path else name)
            await on.refused(404, method, whole, b'{"metadata":{},"items":[]}', **JSON)


WRONG_QUERIES = {
    "limit": ["", "0", "101", "-1", "1.5", "x", "9" * 30, "%D9%A1", "+5", "%005", "1&limit=2"],
    "order": ["", "ASC", "up", "asc&order=desc", "asc&order=asc"],
    "after": ["a&after=b"],
    "include": ["", "all", "reasoning.encrypted_content&include[]=x"],
}


@pytest.mark.parametrize("path", LISTS)
async def test_a_wrong_query_of_a_list(on: Asked, path: str) -> None:
    for name, values in WRONG_QUERIES.items():
        for value in values:
            error = await on.refused(400, "GET", f"{path}?{name}={value}")
            assert error["param"] == name, (name, value)
    for after in ("", "msg_none", "%00", "%FF", "a" * 4000):
        error = await on.refused(404, "GET", f"{path}?after={after}")
        assert error["param"] == "after"


WRONG_ASKED = {
    "stream": ["", "yes", "null", "2", "true&stream=true", "true&stream=false"],
    "starting_after": ["", "-1", "1.0", "x", "9" * 30, "999", "%D9%A1", "1&starting_after=1"],
    "include": ["", "all"],
    "include_obfuscation": ["maybe", "", "true&include_obfuscation=true"],
}


@pytest.mark.parametrize("path", ["/responses/{r}", "/responses/{b}"])
async def test_a_wrong_query_of_a_response(on: Asked, path: str) -> None:
    for name, values in WRONG_ASKED.items():
        for value in values:
            stream = "" if name == "stream" else "stream=true&"
            error = await on.refused(400, "GET", f"{path}?{stream}{name}={value}")
            assert error["param"] == name, (name, value)
    error = await on.refused(400, "GET", f"{path}?starting_after=0")
    assert error["param"] == "starting_after"


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_an_idempotency_key_that_is_none(on: Asked, key: str) -> None:
    body = json.dumps({"model": "m", "input": "x"}).encode()
    error = await on.refused(400, "POST", "/responses", body, idempotency_key=key, **JSON)
    assert error["param"] == "Idempotency-Key"


async def test_what_is_over_is_not_cancelled(on: Asked) -> None:
    for name in ("{r}", "{b}"):
        error = await on.refused(409, "POST", f"/responses/{name}/cancel")
        assert error["code"] == "response_already_completed"


PLAIN = st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#")
ODD = st.text(PLAIN, max_size=20)
ASKED = st.sampled_from(["limit", "order", "after", "include", "stream", "starting_after"])
FIELDS = st.sampled_from(["items", "metadata", "stream", "conversation", "input", "include"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "id"]), inner)
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(FIELDS, VALUES).map(lambda fields: json.dumps(fields).encode())


@given(
    path=st.sampled_from([*ROUTES, "/{x}", "/responses/{x}/{x}"]),
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
    odd=st.lists(ODD, min_size=3, max_size=3),
    query=st.lists(st.tuples(ASKED, ODD)),
    body=st.one_of(st.none(), st.binary(max_size=40), OBJECTS),
)
async def test_anything(
    on: Asked,
    path: str,
    method: str,
    odd: list[str],
    query: list[tuple[str, str]],
    body: bytes | None,
) -> None:
    if method == "DELETE" or (method == "POST" and path.startswith("/conversations/{c}")):
        path = path.replace("{r}", "{x}").replace("{b}", "{x}").replace("{c}", "{x}")
    names = {**on.names, "x": odd[0].replace("%", "%25").replace("?", "")}
    asked = "&".join(f"{name}={value}" for name, value in query)
    line = Asked(on.url, names).named(path) + (f"?{asked}" if asked else "")
    lines = {**JSON, "idempotency-key": odd[1], "accept": odd[2]}
    answer, _ = await Asked(on.url, {}).ask(method, line, body, lines)
    assert answer.status < 500 or (answer.status, path) == (501, "/responses/input_tokens")
