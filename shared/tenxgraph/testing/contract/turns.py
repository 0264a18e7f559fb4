"""The line of a rate limit: ``turn``."""
# ruff: noqa: D102  # the name of a test is its sentence

from functools import partial

from tenxgraph.testing.contract.harness import LONG_MS, StoreMoves, at_once


class TurnContract(StoreMoves):
    """Who may call when."""

    def turn(self, nonce: str, limit: int = 2, period_ms: int = LONG_MS, what: str = "model") -> int:
        """Stand in line, or look when it is one's turn."""
        return self.store.turn(what, nonce, limit=limit, period_ms=period_ms)

    def test_as_many_as_allowed_begin_at_once_and_the_next_wait_a_period(self) -> None:
        waits_ms = [self.turn(f"n{number}") for number in range(5)]
        assert waits_ms[:2] == [0, 0]
        assert all(LONG_MS * 0.9 < wait_ms <= LONG_MS for wait_ms in waits_ms[2:4])
        assert LONG_MS * 1.9 < waits_ms[4] <= 2 * LONG_MS

    def test_a_turn_is_given_once(self) -> None:
        for nonce in ("n1", "n1", "n1", "n2"):
            assert self.turn(nonce) == 0
        assert 0 < self.turn("n3") <= LONG_MS
        assert 0 < self.turn("n3") <= LONG_MS
        assert 0 < self.turn("n4") <= LONG_MS
        assert (self.turn("n1"), self.turn("n2")) == (0, 0)

    def test_a_turn_that_has_come_stays_until_it_is_used(self) -> None:
        self.turn("n1", 1, 30)
        assert 0 < self.turn("n2", 1, 30) <= 30
        self.harness.sleep_ms(40)
        assert self.turn("n2", 1, 30) == 0
        self.harness.sleep_ms(40)
        assert self.turn("n2", 1, 30) == 0
        assert self.turn("n3", 1, 30) == 0

    def test_each_thing_has_a_line_of_its_own(self) -> None:
        assert self.turn("n1", 1, what="{a}b{") == 0
        assert self.turn("n1", 1, what="{a}b") == 0
        assert self.turn("n2", 1, what="") == 0
        assert self.turn("n2", 1, what="{a}b{") > 0

    def test_those_who_ask_at_one_moment_have_turns_one_after_the_other(self) -> None:
        waits_ms = at_once([partial(self.turn, f"n{number}", 4) for number in range(12)])
        assert sorted(round(wait_ms / LONG_MS) for wait_ms in waits_ms) == [0] * 4 + [1] * 4 + [2] * 4

    def test_no_more_begin_in_any_period_than_a_lowered_limit_allows(self) -> None:
        assert [self.turn(f"n{number}", 4) for number in range(4)] == [0] * 4
        assert self.turn("n4", 1) > 0.9 * LONG_MS
