"""The contents of messages and tool outputs in the form of Chat Completions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.upstream.chat.omissions import left_out
from lanes.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable

Part = dict[str, Any]


def parts_of(content: object) -> list[Part]:
    """Return all parts of a content in Chat's form, without those that it has no form for."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    parts = []
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        form = _FORMS.get(kind) if isinstance(kind, str) else None
        chat_part = None if form is None else form(part)
        if chat_part is None:
            left_out("content part", kind)
        else:
            parts.append(chat_part)
    return parts


def text_of(content: object, between: str = "\n") -> str:
    """Return the text of a content, joined by `between`: other roles than the user hold no more."""
    parts = parts_of(content)
    for part in parts:
        if part["type"] != "text":
            left_out("content part", part["type"])
    return between.join(part["text"] for part in parts if part["type"] == "text")


def plain_or_parts(parts: list[Part]) -> str | list[Part]:
    """Return a string where all parts are text, because some servers accept nothing else (D22)."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def output_of(output: object) -> tuple[str, list[Part]]:
    """Return the text of a `tool` message, and the parts that only a user message may hold."""
    if isinstance(output, str):
        return output, []
    if not isinstance(output, list):
        return "" if output is None else encode(output).decode(), []
    parts = parts_of(output)
    media = [part for part in parts if part["type"] != "text"]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    return text or ("See the next message." if media else ""), media


def present(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return these keys, or all keys if none are given, without those that are missing or null."""
    return {key: value[key] for key in keys or value if value.get(key) is not None}


def _text(part: Part) -> Part | None:
    text = part.get("text", part.get("refusal"))
    return {"type": "text", "text": text} if isinstance(text, str) else None


def _image(part: Part) -> Part | None:
    url = part.get("image_url")
    if isinstance(url, dict):  # Chat's own form under the name of the Responses API
        return {"type": "image_url", "image_url": present(url)}
    if not isinstance(url, str):
        return None  # it has a `file_id`, and no other server has the file
    return {"type": "image_url", "image_url": {"url": url, **present(part, "detail")}}


def _file(part: Part) -> Part | None:
    file = present(part, "file_data", "file_id", "filename")
    return {"type": "file", "file": file} if file.keys() - {"filename"} else None


def _own(part: Part) -> Part:
    """Return a part that is in Chat's form already, or in a vendor's form of it."""
    return {
        key: present(value) if isinstance(value, dict) else value
        for key, value in present(part).items()
    }


_FORMS: dict[str, Callable[[Part], Part | None]] = {
    **dict.fromkeys(("input_text", "output_text", "text", "refusal"), _text),
    "input_image": _image,
    "input_file": _file,
    **dict.fromkeys(("input_audio", "image_url", "file", "video_url", "audio_url"), _own),
}
