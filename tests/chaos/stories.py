"""What a client does with one thread, and how that must stand then. Several clients on one thread: meetings.py."""

from typing import Final

from tenxgraph.core.exceptions import NodeError
from tenxgraph.core.graph import RunStatus
from tests.chaos.meetings import MEETINGS
from tests.chaos.teller import Story, Teller, insist


def _straight(teller: Teller) -> None:
    teller.begin().result(teller.patience_s)


def _with_a_question(teller: Teller) -> None:
    (asked,) = teller.waits(teller.begin())
    teller.answers[asked["id"]] = "yes"
    done = teller.answer("yes").result(teller.patience_s)
    assert done["status"] is RunStatus.COMPLETED, done["status"]


def _failed_and_continued(teller: Teller) -> None:
    try:
        result = teller.begin(RunStatus.FAILED).result(teller.patience_s)
    except NodeError as error:
        if "never works" not in error.message:
            raise
        teller.go_on().result(teller.patience_s)
        return
    raise AssertionError(f"the run did not fail but is {result['status']}")


def _stopped_and_continued(teller: Teller) -> None:
    handle = teller.begin(RunStatus.STOPPED)
    teller.let_it_run()
    insist(handle.stop)
    status = teller.ended(handle)
    if status is RunStatus.COMPLETED:
        return
    assert status is RunStatus.STOPPED, status
    teller.go_on().result(teller.patience_s)


def _cancelled(teller: Teller) -> None:
    handle = teller.begin()
    teller.let_it_run()
    teller.cancel(handle)


STORIES: Final = {
    "straight": Story("plain", _straight, 36, _straight),
    "question": Story("asking", _with_a_question, 8, _with_a_question),
    "retried": Story("flaky", _straight, 8, _straight),
    "failed, then continued": Story("broken", _failed_and_continued, 8, _failed_and_continued),
    "stopped, then continued": Story("plain", _stopped_and_continued, 4, _straight),
    "cancelled": Story("plain", _cancelled, 4),
    **MEETINGS,
}


def story_of(number: int) -> str:
    """Return the name of the story of a thread: the shares hold in each hundred."""
    place = number * 37 % 100
    for name, story in STORIES.items():
        if place < story.share:
            return name
        place -= story.share
    raise AssertionError("the shares do not add up to a hundred")
