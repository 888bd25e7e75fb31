"""The contents of messages and tool outputs in the form of Chat Completions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.upstream.chat.omissions import left_out
from lanes.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable

Part = dict[str, Any]


def parts_of(content: object) -> list[Part]:
    """All parts of a content in Chat's form; what it has no form for is left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    found = []
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        form = _FORMS.get(kind) if isinstance(kind, str) else None
        made = None if form is None else form(part)
        if made is None:
            left_out("content part", kind)
        else:
            found.append(made)
    return found


def text_of(content: object, between: str = "\n") -> str:
    """The text of a content, all that many roles may have."""
    parts = parts_of(content)
    for part in parts:
        if part["type"] != "text":
            left_out("content part", part["type"])
    return between.join(part["text"] for part in parts if part["type"] == "text")


def plain_or_parts(parts: list[Part]) -> str | list[Part]:
    """A string where there is only text: some servers take nothing else (D22)."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def output_of(output: object) -> tuple[str, list[Part]]:
    """A tool's output as the text of a `tool` message, and the parts that only a user may send."""
    if isinstance(output, str):
        return output, []
    if not isinstance(output, list):
        return "" if output is None else encode(output).decode(), []
    parts = parts_of(output)
    media = [part for part in parts if part["type"] != "text"]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    return text or ("See the next message." if media else ""), media


def present(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    """What there is of these keys (of all without any): a null is as good as nothing."""
    return {key: value[key] for key in keys or value if value.get(key) is not None}


def _text(part: Part) -> Part | None:
    text = part.get("text", part.get("refusal"))
    return {"type": "text", "text": text} if isinstance(text, str) else None


def _image(part: Part) -> Part | None:
    url = part.get("image_url")
    if isinstance(url, dict):  # Chat's own form under the other name
        return {"type": "image_url", "image_url": present(url)}
    if not isinstance(url, str):
        return None  # by `file_id`: no other server has the file
    return {"type": "image_url", "image_url": {"url": url, **present(part, "detail")}}


def _file(part: Part) -> Part | None:
    file = present(part, "file_data", "file_id", "filename")
    return {"type": "file", "file": file} if file.keys() - {"filename"} else None


def _own(part: Part) -> Part:
    """A part that is in Chat's form, or in a vendor's of it."""
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
