"""What a compaction keeps, and what a shorter history leaves out, of any history."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from lanes.codec import decode, encode
from lanes.compaction.budgets import TEXT_BUDGET, CompactionBudgets
from lanes.compaction.context import Compacted, expanded, is_standing, is_summary, latest, role_of
from lanes.compaction.estimate import estimated_tokens
from lanes.compaction.plan import CompactionPlan, plan
from lanes.compaction.prompt import SHORTENED
from lanes.compaction.truncation import shorter
from lanes.history.entries import answers, calls_of
from tests.dialects.histories import histories

Item = dict[str, Any]


def torn(items: list[bytes]) -> list[object]:
    """The outputs whose call is nowhere before them."""
    calls: set[object] = set()
    lost: list[object] = []
    for item in map(decode, items):
        call = answers(item)
        if call is not None and call not in calls:
            lost.append(call)
        calls |= set(calls_of(item))
    return lost


def named(items: list[bytes]) -> set[object]:
    return {call for item in map(decode, items) for call in calls_of(item)}


def answered(items: list[bytes]) -> set[object]:
    return {call for item in map(decode, items) if (call := answers(item)) is not None}


@given(histories(), st.booleans())
def test_no_call_is_parted_from_its_output(history: list[Item], goes_on: bool) -> None:
    items = [encode(item) for item in history]
    planned = plan(items, goes_on=goes_on)
    for part in (planned.summarised, planned.after, planned.ahead):
        assert torn(part) == torn(items) == []
    assert not named(planned.summarised) & answered(planned.after)
    waiting = {call for call in named(items) - answered(items) if call[0] == "call_id"}  # type: ignore[index]
    calls = {call for item in history if "name" in item for call in calls_of(item)}
    assert waiting & calls <= named(planned.after)


@given(histories(), st.booleans())
def test_order_is_kept_and_nothing_is_lost_or_doubled(history: list[Item], goes_on: bool) -> None:
    items = [encode({**item, "n": at}) for at, item in enumerate(history)]
    planned = plan(items, goes_on=goes_on)
    places = [[decode(item)["n"] for item in part] for part in (planned.summarised, planned.ahead)]
    assert sorted(places[0] + places[1]) == list(range(len(items)))
    kept = [[decode(item)["n"] for item in part] for part in (planned.before, planned.after)]
    for part in (*places, *kept):
        assert part == sorted(part)
    assert set(kept[0]) <= set(places[0])
    assert kept[1] == places[1]
    for item in map(decode, planned.ahead):
        if not set(calls_of(item)):
            assert item == {**history[item["n"]], "n": item["n"]}
    assert set(kept[0]) >= {n for n in places[0] if is_standing(history[n])}


@given(histories())
def test_what_is_sent_in_place_of_an_item_and_all_before_it(
    history: list[Item],
) -> None:
    """What comes before is left out but for standing messages, or is messages alone."""
    sealed = encode({"type": "compaction", "encrypted_content": "x"})
    items = [encode(item) for item in history]
    content = Compacted([Raw(encode({"role": "user", "content": "kept"}))], "Summary.", [])
    assert latest([*items, sealed]) == len(items)
    whole = expanded(items, content)
    sent = [decode(item) for item in whole]
    place = [is_summary(item) for item in whole].index(True)
    assert place == len(sent) - 1
    roles = {role_of(item) for item in history}
    if "user" in roles and roles <= {"user", "system", "developer"}:
        assert sent[:-1] == history
    else:
        assert sent[:-1] == [
            *(item for item in history if is_standing(item)),
            {"role": "user", "content": "kept"},
        ]


@given(st.lists(st.integers(0, 3 * TEXT_BUDGET), min_size=1, max_size=6))
def test_what_is_kept_is_bounded_and_the_latest_comes_first(sizes: list[int]) -> None:
    items = [encode({"role": "user", "content": "x" * size}) for size in sizes]
    planned = plan([*items, encode({"role": "assistant", "content": "ok"})], goes_on=False)
    texts = [decode(item)["content"] for item in planned.before]
    assert sum(map(len, texts)) <= TEXT_BUDGET + 100
    assert texts[-1] == "x" * sizes[-1] or sizes[-1] > TEXT_BUDGET


@given(st.integers(1, 10**7), st.sampled_from(["x", "\u00e9", "\u6f22", "\U0001f600"]))
def test_what_is_kept_leaves_half_of_the_threshold_free(threshold: int, letter: str) -> None:
    budgets = CompactionBudgets(threshold)
    said = encode({"role": "user", "content": letter * (5 * min(threshold, TEXT_BUDGET))})
    output = encode({"type": "function_call_output", "call_id": "c", "output": letter * 50_000})
    called = encode({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})
    planned = plan([said, called, output], goes_on=True, budgets=budgets)
    most = max(2000, min(threshold, TEXT_BUDGET))
    for part in (planned.before, planned.after):
        texts = [decode(item).get("content", decode(item).get("output", "")) for item in part]
        assert sum(len(text.encode()) for text in texts) <= most + len(SHORTENED)
    assert budgets.text == most
    assert planned.ahead == [called, output]


def test_a_history_is_compacted_again_once_there_is_enough_that_is_new() -> None:
    budgets = CompactionBudgets(4000)
    assert budgets.pays(None)
    assert budgets.pays(500)
    assert not budgets.pays(499)
    assert budgets.pays(250, 2.0)
    assert CompactionBudgets(1).pays(1)


@given(histories(), st.booleans())
def test_a_shorter_history_is_an_end_of_it(history: list[Item], within: bool) -> None:
    items = [encode({**item, "n": at}) for at, item in enumerate(history)]
    before = len(items)
    tries = list(shorter(items, within_turns=within))
    assert len(tries) <= 4
    for left in tries:
        assert len(left) < before
        before = len(left)
        places = [decode(item)["n"] for item in left]
        count = len(items)
        start = next(n for n in range(count) if places[n - count :] == list(range(n, count)))
        assert torn(left) == []
        assert places[: len(places) - (len(items) - start)] == [
            n for n in range(start) if is_standing(history[n])
        ]
        if not within:
            first = next(item for item in history[start:] if not is_standing(item))
            assert role_of(first) == "user"


#: Makes an item so large that its long strings are cut out (D33).
PAD = "QUJD" * 75_000


def padded(item: Item) -> Item:
    """Only small items of reasoning are kept, so these stay as they are."""
    return item if item.get("type") == "reasoning" else {**item, "pad": PAD}


def without_pads(planned: CompactionPlan) -> list[list[Item]]:
    parts = planned.summarised, planned.before, planned.after, planned.ahead
    read = [list(map(decode, part)) for part in parts]
    for item in (item for part in read for item in part):
        assert item.pop("pad", PAD) == PAD
    return read


@given(histories(), st.booleans())
def test_a_large_item_is_kept_and_left_out_as_a_small_one_is(
    history: list[Item], goes_on: bool
) -> None:
    small = plan([encode(item) for item in history], goes_on=goes_on)
    large = plan([encode(padded(item)) for item in history], goes_on=goes_on)
    assert without_pads(large) == without_pads(small)
    assert large.worthwhile is small.worthwhile


#: Texts whose JSON is cut in each of the ways there are, or not at all.
TEXTS = {
    "words": "word " * 17_000,
    "base64": "QUJD" * 21_000,
    "two bytes": "é" * 81_000,
    "four bytes": "x" + "\N{GRINNING FACE}" * 80_001,
    "escapes": "line\n" * 17_000,
    "few escapes": ("QUJD" * 10_000 + "\n") * 3,
    "far too long": "é\N{GRINNING FACE}" + "word é" * 200_000 + "x\N{GRINNING FACE}",
    "just as long as may be": "x" * TEXT_BUDGET,
}


def test_a_text_is_shortened_in_the_same_way_in_any_item() -> None:
    for name, text in TEXTS.items():
        for more in ([], [{"role": "user", "content": "é" * 4_500}]):
            message: Item = {"role": "user", "content": [{"type": "input_text", "text": text}]}
            call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": text}
            history = [message, {"role": "assistant", "content": "ok"}, call, *more]
            small = plan([encode(item) for item in history], goes_on=False)
            large = plan([encode(padded(item)) for item in history], goes_on=False)
            assert without_pads(large) == without_pads(small), name
            kept = decode(large.before[0])["content"][0]["text"]
            left = TEXT_BUDGET - sum(len(item["content"].encode()) for item in more)
            head, middle, tail = kept.partition(SHORTENED)
            data = text.encode()
            assert (kept == text) is (len(data) <= left), name
            ends = data[: left // 2], data[-(left // 2) :]
            assert not middle or [head, tail] == [end.decode(errors="ignore") for end in ends], name


def test_what_a_file_counts_is_the_same_wherever_it_is() -> None:
    """A file is a thousand tokens, whatever is around it."""
    file = "data:application/pdf;base64," + "QUJD" * 100_000
    part = {"type": "input_file", "file_data": file, "filename": 'a "\\b'}
    said = {"type": "input_text", "text": "x" * 300 + '";base64,"' * 9}
    for parts in ([part], [said, part], [part, said]):
        item = encode({"role": "user", "content": parts})
        assert estimated_tokens([item], {}) == (len(item) - len(file)) // 4 + 1000
