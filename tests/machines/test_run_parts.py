"""Parts: text, refusals, reasoning and summaries, annotations, logprobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines.backend import added, completed, created, delta, done, message, reasoning
from tests.machines.drive import Event, Played, play


def parts(played: Played, line: str = "content") -> list[tuple[str, str]]:
    return [
        (part["type"], part["refusal"] if part["type"] == "refusal" else part["text"])
        for item in played.output
        for part in item.get(line, ())
    ]


def opened(part: dict[str, Any], **place: Any) -> Event:
    return {"type": "response.content_part.added", "item_id": "m1", "part": part, **place}


def closed(part: dict[str, Any], **place: Any) -> Event:
    return {"type": "response.content_part.done", "item_id": "m1", "part": part, **place}


TEXT = {"type": "output_text", "text": ""}
REFUSAL = {"type": "refusal", "refusal": ""}


def test_a_refusal_is_a_part_like_any_other() -> None:
    whole = message(None, content=[TEXT | {"text": "a"}, REFUSAL | {"refusal": "no"}])
    at = {"content_index": 1}
    events = [opened(TEXT, content_index=0), delta("a", content_index=0), opened(REFUSAL, **at)]
    events += [delta("no", "m1", "refusal", **at)]
    for middle in (events, events[1:2] + events[3:], events[:2], []):
        played = play([created(), *middle, done(whole), completed([whole])])
        assert parts(played) == [("output_text", "a"), ("refusal", "no")]
        assert played.texts("refusal") == "no"


@pytest.mark.parametrize(("sent", "ended"), [("refusal", TEXT), ("output_text", REFUSAL)])
def test_an_end_of_another_kind_adds_nothing_to_a_part(sent: str, ended: Event) -> None:
    texts = {key: "b" for key in ("text", "refusal") if key in ended}
    whole = message(None, id="y1", content=[{**ended, **texts, "extra": 1}])
    for middle in ([], [done(whole)]):
        played = play([created(), delta("a", "m1", sent), *middle, completed([whole])])
        (part,) = played.output[0]["content"]
        assert part["type"] == sent
        assert "extra" not in part
        assert {"text", "refusal"} & part.keys() == {sent.removeprefix("output_")}


def test_parts_are_counted_by_us() -> None:
    events = [
        delta("a", content_index=-1),
        delta("b", content_index=7),
        delta("c", content_index=7),
    ]
    played = play([created(), *events, completed()])
    assert parts(played) == [("output_text", "a"), ("output_text", "bc")]
    assert [event["content_index"] for event in played.of("output_text.delta")] == [0, 1, 1]


def test_a_part_begins_anew_after_its_end() -> None:
    over: Event = {"type": "response.output_text.done", "item_id": "m1", "text": "a"}
    for end in (over, closed(TEXT | {"text": "a"}), opened(TEXT)):
        played = play([created(), delta("a"), end, delta("b"), completed()])
        assert parts(played) == [("output_text", "a"), ("output_text", "b")]


def test_parts_without_deltas() -> None:
    part = {"type": "reasoning_text", "text": "x"}
    place = {"item_id": "rs1", "content_index": 0}
    ways: list[Event] = [
        {"type": "response.reasoning_text.done", "text": "x", **place},
        {"type": "response.content_part.done", "part": part, **place},
        {"type": "response.output_item.done", "item": reasoning("x")},
    ]
    for way in ways:
        played = play([created(), way, completed()])
        assert parts(played) == [("reasoning_text", "x")]
        assert played.texts("reasoning_text") == "x"


def test_summaries_need_no_part_events() -> None:
    place = {"item_id": "rs1", "output_index": 0}
    events = []
    for index, text in enumerate(("one", "two")):
        at = {**place, "summary_index": index}
        events.append({"type": "response.reasoning_summary_text.delta", "delta": text, **at})
        events.append({"type": "response.reasoning_summary_text.done", "text": text, **at})
    summary = [{"type": "summary_text", "text": text} for text in ("one", "two")]
    whole = reasoning(summary=summary, content=None)
    for middle in (events, events[:1], []):
        played = play([added(reasoning(), 0), *middle, done(whole, 0), completed()])
        assert parts(played, "summary") == [("summary_text", "one"), ("summary_text", "two")]
        assert played.output[0]["content"] == []


FINALS = [("ab", "ab", 1), ("abc", "abc", 2), ("xy", "ab", 1), (None, "ab", 1), (5, "ab", 1)]


@pytest.mark.parametrize(("final", "text", "deltas"), FINALS)
def test_deltas_are_the_truth_and_their_rest_is_one_more(
    final: Any, text: str, deltas: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "multilane.run")
    ends: list[Event] = [
        {"type": "response.output_text.done", "item_id": "m1", "text": final},
        closed({"type": "output_text", "text": final}),
        done(message(final)),
        completed([message(final)]),
    ]
    for end in ends:
        played = play([created(), delta("ab"), end, completed()])
        assert parts(played) == [("output_text", text)]
        assert len(played.of("output_text.delta")) == deltas
    assert ("contradicts" in caplog.text) is (final == "xy")


@pytest.mark.parametrize("text", [None, 5, "", [], {}])
def test_a_delta_without_text_is_none(text: Any) -> None:
    played = play([created(), delta(text), delta("a"), delta(text), completed()])
    assert played.types().count("output_text.delta") == 1


def test_logprobs_are_kept_for_the_end() -> None:
    one, two = (
        {"token": token, "logprob": -0.5, "bytes": [ord(token)], "top_logprobs": []}
        for token in "ab"
    )
    events = [delta("a", logprobs=[one]), delta("b", logprobs=[two]), delta("c", logprobs=None)]
    played = play([created(), *events, delta("d", logprobs=[]), completed()])
    assert [e["logprobs"] for e in played.of("output_text.delta")] == [[one], [two], [], []]
    assert played.of("output_text.done")[0]["logprobs"] == [one, two]
    assert played.output[0]["content"][0]["logprobs"] == [one, two]
    final = message(None, content=[TEXT | {"text": "a", "logprobs": [5, one]}])
    played = play([created(), delta("a"), done(final), completed()])
    assert played.output[0]["content"][0]["logprobs"] == [one]
    over: Event = {"type": "response.output_text.done", "item_id": "m1", "logprobs": [one]}
    played = play([created(), delta("a"), over, completed()])
    assert played.of("output_text.done")[0]["logprobs"] == [one]


FLOOR = -9999.0
LOGPROBS: list[tuple[Any, Any]] = [
    ({"token": "é"}, {"token": "é", "logprob": FLOOR, "bytes": [195, 169]}),
    ({"token": "a", "logprob": None, "bytes": None}, {"logprob": FLOOR, "bytes": [97]}),
    ({"token": "a", "logprob": "-1", "bytes": "a"}, {"logprob": FLOOR, "bytes": [97]}),
    ({"token": "a", "logprob": True, "bytes": [True]}, {"logprob": FLOOR, "bytes": [97]}),
    ({"token": "a", "logprob": 0, "bytes": []}, {"logprob": 0, "bytes": []}),
    ({"token": None, "logprob": -1.5, "x": 1}, {"token": "", "logprob": -1.5, "bytes": [], "x": 1}),
    ({"token": 5, "bytes": [53]}, {"token": "", "logprob": FLOOR, "bytes": [53]}),
]


@pytest.mark.parametrize(("given", "shown"), LOGPROBS)
def test_logprobs_are_made_whole(given: dict[str, Any], shown: dict[str, Any]) -> None:
    tops: list[tuple[Any, Any]] = [
        (None, []),
        ({"a": 1}, []),
        ([given, 5], [{"token": given["token"], **shown}]),
    ]
    for top, top_shown in tops:
        one = {**given, "top_logprobs": top}
        whole = {"token": given["token"], **shown, "top_logprobs": top_shown}
        final = message(None, content=[TEXT | {"text": "a", "logprobs": [one, None]}])
        for events in ([delta("a", logprobs=[one, "x"])], [done(final)]):
            played = play([created(), *events, completed()])
            assert played.of("output_text.done")[0]["logprobs"] == [whole]
            assert played.output[0]["content"][0]["logprobs"] == [whole]


def test_annotations_are_kept_for_the_end() -> None:
    note = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    event: Event = {"type": "response.output_text.annotation.added", "annotation": note}
    event |= {"item_id": "m1", "output_index": 0, "content_index": 3, "annotation_index": 9}
    middle = [delta("a", content_index=3), event, event]
    played = play([created(), *middle, completed()])
    seen = played.of("output_text.annotation.added")
    assert [(e["content_index"], e["annotation_index"]) for e in seen] == [(0, 0), (0, 1)]
    assert played.output[0]["content"][0]["annotations"] == [note, note]
    whole = message(None, content=[TEXT | {"text": "a", "annotations": [note]}])
    played = play([created(), *middle, done(whole), event, completed()])
    assert played.output[0]["content"][0]["annotations"] == [note]
    assert len(played.of("output_text.annotation.added")) == 2
    early = play([created(), event, added(message()), event, delta("a"), completed()])
    assert early.of("output_text.annotation.added") == []


def test_parts_of_kinds_we_do_not_know_are_in_the_finished_item() -> None:
    strange = {"type": "output_scent", "scent": "rose"}
    events = [
        added(message()),
        opened(strange),
        delta("a"),
        closed(strange),
        opened({}),
        opened({}),
    ]
    whole = message(None, content=[strange, 5, TEXT | {"text": "a"}])
    played = play([created(), *events, done(whole)])
    final = played.events[-2]["item"]
    assert [part["type"] for part in final["content"]] == ["output_text", "output_scent"]
    assert not any(event.get("part") == strange for event in played.events)


def test_reasoning_shows_what_was_asked_for() -> None:
    partial, whole = reasoning(encrypted_content="gA"), reasoning(encrypted_content="gAAA==")
    for request, shown in (
        ({"model": "m"}, None),
        ({"model": "m", "store": True}, None),
        ({"model": "m", "store": False}, "gAAA=="),
        ({"model": "m", "include": ["reasoning.encrypted_content"]}, "gAAA=="),
    ):
        opening: Event = {"type": "response.output_item.added", "item": partial}
        played = play([created(), opening, done(whole), completed([whole])], request)
        assert played.output[0].get("encrypted_content") == shown
    played = play([created(), opening, done(reasoning(encrypted_content=None)), completed()])
    assert "encrypted_content" not in played.output[0]
    played = play([created(), opening, completed([reasoning(encrypted_content="")])])
    assert "encrypted_content" not in played.output[0]


@pytest.mark.parametrize("asked", [{"model": "m"}, {"model": "m", "store": False}])
def test_only_reasoning_hides_its_encrypted_content(asked: dict[str, Any]) -> None:
    for kind in ("compaction", "zebra"):
        item = {"type": kind, "id": "cmp1", "encrypted_content": "gA"}
        opening: Event = {"type": "response.output_item.added", "item": item, "output_index": 0}
        for events in ([opening], [opening, done(item, 0)], [done(item, 0)], []):
            played = play([created(), *events, completed([item])], asked)
            shown = [event["item"] for event in played.events if "item" in event]
            shown += [played.terminal["output"][0]] if kind == "compaction" else []
            assert [one["encrypted_content"] for one in shown] == ["gA"] * len(shown)
            assert len(played.run.entries()) == 1


@pytest.mark.parametrize("first", [-1, None, 0])
@pytest.mark.parametrize("end", [-1, None, 0])
def test_an_announced_part_takes_the_place_of_its_deltas(first: Any, end: Any) -> None:
    """vLLM announces the parts of its harmony models at -1, and fills them at 0."""
    whole = {"type": "output_text", "text": "abc"}
    over: Event = {"type": "response.output_text.done", "item_id": "m1", "text": "abc"}
    events = [
        opened(TEXT, content_index=first),
        *(delta(piece, content_index=0) for piece in "abc"),
        over | {"content_index": end},
        closed(whole, content_index=end),
    ]
    played = play([created(), added(message(None)), *events, done(message("abc")), completed()])
    assert parts(played) == [("output_text", "abc")]
    assert played.types().count("content_part.added") == 1
    assert [event["content_index"] for event in played.of("output_text.delta")] == [0, 0, 0]


def test_the_next_part_has_another_place() -> None:
    events = [opened(TEXT, content_index=-1), delta("a", content_index=0)]
    played = play([created(), *events, delta("b", content_index=1), completed()])
    assert parts(played) == [("output_text", "a"), ("output_text", "b")]


def test_two_messages_in_a_row_stay_two() -> None:
    """A harmony model comments, and then answers."""
    said = [message("a", phase="commentary"), message("b", id="m2", phase="final_answer")]
    events: list[Event] = []
    for item in said:
        bare = {key: item[key] for key in item if key != "content"}
        events += [added(bare), delta(item["content"][0]["text"], item["id"]), done(item)]
    for middle in (events, []):
        played = play([created(), *middle, completed(said)])
        assert [item["phase"] for item in played.output] == ["commentary", "final_answer"]
        assert parts(played) == [("output_text", "a"), ("output_text", "b")]
