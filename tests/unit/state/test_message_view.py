"""Messages are put together from tokens; what a discarded attempt said is gone."""

from typing import Any

from tenxgraph.core.state import Message, MessageView, StreamChunk, StreamEvent, TextBlock


def token(text: str, attempt: int = 1, task: str = "0", message_id: str = "M", **more: Any) -> StreamChunk:
    content: list[Any] = [TextBlock(text=text)] if text else []
    piece = Message(message_id=message_id, role="assistant", content=content, delta=True, **more)
    return StreamChunk(event=StreamEvent.TOKEN, task=task, attempt=attempt, message=piece)


def texts(view: MessageView) -> list[tuple[str, bool]]:
    return [(message.text(), message.delta) for message in view.messages]


def view_of(*chunks: StreamChunk) -> MessageView:
    view = MessageView()
    for chunk in chunks:
        view.feed(chunk)
    return view


def test_tokens_grow_into_a_message_that_the_whole_one_replaces() -> None:
    view = view_of(token("", reasoning="hm"), token("", reasoning="m"), token("two "), token("words"))
    assert (texts(view), view.messages[0].reasoning) == ([("two words", True)], "hmm")
    view.feed(StreamChunk(event=StreamEvent.MESSAGE, message=Message.text_message("two words", "assistant", "M")))
    assert texts(view) == [("two words", False)]


def test_what_a_discarded_attempt_said_is_gone() -> None:
    view = view_of(token("first"), StreamChunk(event=StreamEvent.ATTEMPT_DISCARDED, task="0", attempt=1))
    assert texts(view) == []
    view.feed(token("second", attempt=2))
    view.feed(StreamChunk(event=StreamEvent.ATTEMPT_DISCARDED, task="0", attempt=1))
    assert texts(view) == [("second", True)]


def test_an_attempt_that_asked_a_person_is_followed_by_one_that_begins_anew() -> None:
    assert texts(view_of(token("first"), token("second", attempt=2))) == [("second", True)]


def test_tasks_side_by_side_write_messages_of_their_own() -> None:
    view = view_of(token("a"), token("b", task="1", message_id="N"), token("a"))
    view.feed(StreamChunk(event=StreamEvent.ATTEMPT_DISCARDED, task="1", attempt=1))
    assert texts(view) == [("aa", True)]


def test_nothing_is_being_written_once_the_run_ended() -> None:
    assert texts(view_of(token("half"), StreamChunk(event=StreamEvent.RUN_END))) == []
