"""Pure: the bytes of a large client frame, in steps that are all short (D33, protocol.md 1).

Its long plain strings are cut out first, so that only the rest has to be decoded, and the items of
a create's input are decoded and encoded one by one. What would still take long is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw

from gateway.client.frames import (
    FrameRefusal,
    client_fault,
    lane_of,
    not_an_object,
    not_json,
    read,
    read_cancel,
    read_create,
    unknown_type,
)
from lanes.codec import decode, encode
from lanes.errors import ClientFault
from lanes.frames import CANCEL
from lanes.history.entries import EncodedItem, input_items, too_many_items
from lanes.history.short_items import restore_names
from lanes.long_strings import LongStrings, TooMuch, values_in

if TYPE_CHECKING:
    from lanes.frames import Cancel, Create
    from steering.frames import Steer

#: Bytes from which on a frame is large.
LARGE: Final = 64 * 1024
#: Bytes of a frame beside its long plain strings.
MAX_REST: Final = 16 * 1024 * 1024
#: Values in a frame, and in one item or setting: the items of arrays and the pairs of objects.
MAX_VALUES, MAX_VALUES_IN_ONE = 250_000, 50_000
#: Bytes and values of all that is no input: each snapshot may repeat it, once its shape is checked.
MAX_SETTINGS, MAX_SETTING_VALUES = 2 * 1024 * 1024, 25_000
#: Bytes of a string that is a whole input, of a steer, and of items for a conversation.
MAX_TEXT = 4 * 1024 * 1024

_read_any = msgspec.json.Decoder(Raw).decode
_read_object = msgspec.json.Decoder(dict[str, Raw]).decode
_read_array = msgspec.json.Decoder(list[Raw]).decode


#: Bytes up to which a frame is read at once whatever is in it, and objects in a larger one.
SMALL, _MANY_OBJECTS = 8 * 1024, 500


def is_large(data: bytes) -> bool:
    """Return whether a frame takes so long that it is read aside."""
    return len(data) >= LARGE or (len(data) > SMALL and data.count(b"{") > _MANY_OBJECTS)


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """What a gateway's settings allow in a frame.

    Attributes:
        items: Items in the input of one create.
        steer_bytes: Bytes of a steer, where that is more than `MAX_TEXT`.
    """

    items: int
    steer_bytes: int


def read_large(
    data: bytes, limits: FrameLimits, default_model: str | None = None
) -> Create | Steer | Cancel | FrameRefusal:
    """Read one large frame as `frames.read` does, or refuse it for what it would take.

    Args:
        data: The frame.
        limits: What is allowed in it.
        default_model: Serves a create without a `model`.
    """
    lane = None
    try:
        fields, strings = _cut(data, "frame")
        kind, lane = (
            _short(fields, "type", strings),
            lane_of({"stream_id": _short(fields, "stream_id", strings)}),
        )
        if kind == "response.create":
            frame = _decoded(fields, strings, limits.items)
            return read_create(frame, len(data), default_model)
        if kind == "response.steer":
            _check_steer(data, limits.steer_bytes)
            return read(data)
        if kind == CANCEL:
            return read_cancel(_settings(fields, strings))
        raise unknown_type(kind)
    except ValueError as error:
        return FrameRefusal(not_json(error, "frame"))
    except ClientFault as fault:
        return FrameRefusal(fault.bare(), lane)


def parse_large(
    data: bytes, what: str, max_items: int, max_settings: int = MAX_SETTINGS
) -> dict[str, Any]:
    """Return the fields of a large create, its input's items encoded. Raises ClientFault.

    Args:
        data: The JSON of the create.
        what: Names it in the message of a fault.
        max_items: Items that its input may have.
        max_settings: Bytes that all but its input may have.
    """
    fields, strings = _cut(data, what)
    try:
        return _decoded(fields, strings, max_items, max_settings)
    except ValueError as error:
        raise not_json(error, what) from None


def _cut(data: bytes, what: str) -> tuple[dict[str, Raw], LongStrings]:
    """Return the undecoded fields without their long strings, and these. Raises ClientFault."""
    strings = LongStrings(max_rest=MAX_REST, max_values=MAX_VALUES, check=True)
    try:
        rest = strings.cut(data)
        try:
            return _read_object(rest), strings
        except msgspec.ValidationError:
            _read_any(rest)
            raise not_an_object(what) from None
    except RecursionError:
        raise not_json(ValueError("nested too deeply"), what) from None
    except ValueError as error:
        raise not_json(error, what) from None
    except TooMuch as error:
        raise client_fault(f"The {what} has {error}.", "too_many_values") from None


def _decoded(
    fields: dict[str, Raw], strings: LongStrings, max_items: int, max_settings: int = MAX_SETTINGS
) -> dict[str, Any]:
    """Return the fields of a create. Raises ClientFault, or ValueError if they are not JSON."""
    decoded = _settings(fields, strings, max_settings)
    if "input" in fields:
        decoded["input"] = _input(bytes(fields["input"]), strings, max_items)
    return decoded


def _short(fields: dict[str, Raw], key: str, strings: LongStrings) -> Any:
    """Return a field that decides on the frame; one that is too long for that is no string."""
    data = bytes(fields.get(key, b"null"))
    return decode(strings.restore(data)) if strings.restored_size(data) < MAX_SETTINGS else {}


def _settings(
    fields: dict[str, Raw], strings: LongStrings, max_bytes: int = MAX_SETTINGS
) -> dict[str, Any]:
    """Return all fields but the input, which gets its place. Raises ClientFault or ValueError."""
    frame: dict[str, Any] = {}
    size = values = 0
    for key, raw in fields.items():
        data = bytes(raw)
        if key == "input":
            frame[key] = None
            continue
        name = key.encode()
        size += strings.restored_size(name) + strings.restored_size(data)
        values += values_in(data)
        if size > max_bytes:
            raise client_fault(
                _beyond(fields, key, f"{max_bytes} bytes"), "value_too_large", key[:64]
            )
        if values > MAX_SETTING_VALUES:
            message = _beyond(fields, key, f"{MAX_SETTING_VALUES} values")
            raise client_fault(message, "too_many_values", key[:64])
        frame[strings.restore(name).decode()] = decode(strings.restore(data))
    return frame


def _beyond(fields: dict[str, Raw], key: str, most: str) -> str:
    counted = "All fields but 'input'" if "input" in fields else "All fields"
    return f"{counted} may have {most} together, and with '{key[:64]}' they have more."


def _input(data: bytes, strings: LongStrings, max_items: int) -> Any:
    """Return the input of a create, its items encoded. Raises ClientFault or ValueError."""
    try:
        items = _read_array(data)
    except msgspec.ValidationError:  # a string, or something that a later check refuses
        _check_values(data, "input")
        value = decode(data)
        if strings.restored_size(data) <= MAX_TEXT or not isinstance(value, str):
            return decode(strings.restore(data)) if isinstance(value, str) else value
        items = [Raw(encode(item)) for item in input_items(value)]
    if len(items) > max_items:
        raise too_many_items(len(items), max_items)
    return [_item(bytes(item), strings, index) for index, item in enumerate(items)]


def _item(data: bytes, strings: LongStrings, index: int) -> Any:
    """Return one item of the input. Raises ClientFault or ValueError."""
    _check_values(data, f"input[{index}]")
    item = decode(data)
    if not isinstance(item, dict):
        return item  # a later check refuses it
    restore_names(item, strings)
    return EncodedItem(item, strings.restore(encode(item)))


def _check_values(data: bytes, where: str) -> None:
    if values_in(data) > MAX_VALUES_IN_ONE:
        message = f"'{where}' may have {MAX_VALUES_IN_ONE} values."
        raise client_fault(message, "too_many_values", where)


def _check_steer(data: bytes, steer_bytes: int) -> None:
    """Raise ClientFault for a steer that is too large to send its input back."""
    if len(data) > max(MAX_TEXT, steer_bytes):
        message = f"A steer may have {max(MAX_TEXT, steer_bytes)} bytes."
        raise client_fault(message, "value_too_large", "input")
    _check_values(data, "input")
