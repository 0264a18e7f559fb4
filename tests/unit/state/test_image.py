"""The encoded state: views share their items, and no view sees another's."""

from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenxgraph.core.state.image import ItemLog, Patch, StateImage, Version, apply


def own_key(item: bytes) -> bytes:
    return item


def test_a_log_that_grows_leaves_its_older_views_as_they_were() -> None:
    old = ItemLog([b"a"], gen=3)
    new = old.append((b"b", b"c"))
    assert (list(old), list(new), new.gen) == ([b"a"], [b"a", b"b", b"c"], 3)
    assert (len(old), new[1:], list(new.view(2))) == (1, [b"b", b"c"], [b"a", b"b"])


def test_two_branches_from_one_view_do_not_mix() -> None:
    base = ItemLog([b"a"])
    first, second = base.append([b"b"]), base.append([b"c"])
    assert (list(first), list(second), list(base)) == ([b"a", b"b"], [b"a", b"c"], [b"a"])


def test_appending_nothing_is_the_same_log() -> None:
    log = ItemLog([b"a"])
    assert log.append(()) is log


def test_a_view_longer_than_the_log_is_refused() -> None:
    short = ItemLog([b"a", b"b"]).view(1)
    with pytest.raises(ValueError, match="1 items, a view of 2"):
        short.view(2)


def test_a_view_knows_only_the_keys_of_its_own_items() -> None:
    old = ItemLog([b"a"])
    new = old.append([b"b"])
    assert new.contains(b"b", own_key)
    assert not old.contains(b"b", own_key)
    assert old.contains(b"a", own_key)


def test_the_index_reads_only_what_is_new() -> None:
    read: list[bytes] = []

    def key_of(item: bytes) -> bytes:
        read.append(item)
        return item

    log = ItemLog([b"a", b"b"])
    assert log.contains(b"a", key_of)
    assert log.append([b"c"]).contains(b"c", key_of)
    assert read == [b"a", b"b", b"c"]


def test_views_that_grow_by_the_same_items_share_an_index() -> None:
    read: list[bytes] = []

    def key_of(item: bytes) -> bytes:
        read.append(item)
        return item

    log = ItemLog([b"a"])
    planned, longer, kept = log.append([b"b"]), log.append([b"b", b"c"]), log.append([b"b"])
    assert all(grown.contains(b"b", key_of) for grown in (planned, longer, kept))
    assert (list(planned), list(longer), list(kept), read) == (
        [b"a", b"b"],
        [b"a", b"b", b"c"],
        [b"a", b"b"],
        [b"a", b"b", b"c"],
    )


def test_another_key_makes_another_index() -> None:
    log = ItemLog([b"Aa"])
    assert log.contains(b"Aa", own_key)
    assert log.contains(b"aa", bytes.lower)
    assert not log.contains(b"aa", own_key)


def test_markers_are_made_once_and_belong_to_their_decoder() -> None:
    log = ItemLog([b"1"])
    first = log.markers(orjson.loads)[0]
    assert log.append([b"2"]).markers(orjson.loads)[0] is first
    assert log.markers(bytes.decode)[0].decode() == "1"


def test_threads_that_append_to_one_view_get_logs_of_their_own() -> None:
    base = ItemLog([b"base"])

    def grow(at: int) -> list[bytes]:
        log = base.append([b"%d" % at])
        assert log.contains(b"%d" % at, own_key)
        return list(log)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(grow, range(200))) == [[b"base", b"%d" % at] for at in range(200)]


items = st.lists(st.binary(max_size=2), max_size=5)


@given(st.lists(st.tuples(st.integers(0, 5), items), max_size=8))
def test_any_tree_of_appends_and_views_equals_plain_lists(growth: list[tuple[int, list[bytes]]]) -> None:
    logs, plain = [ItemLog()], [list[bytes]()]
    for choice, new in growth:
        at = choice % len(logs)
        logs.append(logs[at].view(len(logs[at]) // 2).append(new) if len(new) == 3 else logs[at].append(new))
        plain.append(plain[at][: len(plain[at]) // 2] + new if len(new) == 3 else plain[at] + new)
        assert [list(log) for log in logs] == plain
    for log, expected in zip(logs, plain, strict=True):
        for key in (b"", b"\x00", *expected):
            assert log.contains(key, own_key) == (key in expected)
        assert log.starts(expected)
        assert log.starts([*expected, b"x"])
        assert not expected or not log.starts(expected[:-1])


def test_a_patch_writes_values_appends_and_rewrites() -> None:
    image = StateImage(Version(1, "a"), {"x": b"1", "y": b"2"}, {"l": ItemLog([b"a"], 4), "m": ItemLog([b"b"], 4)})
    patch = Patch(values={"x": b"3"}, appends={"l": (b"c",), "new": (b"d",)}, rewrites={"m": (b"e",)})
    after = apply(image, patch, Version(2, "b"))
    assert (after.version, after.values) == (Version(2, "b"), {"x": b"3", "y": b"2"})
    assert {name: (log.gen, list(log)) for name, log in after.lists.items()} == {
        "l": (4, [b"a", b"c"]),
        "m": (2, [b"e"]),
        "new": (2, [b"d"]),
    }
    assert (image.values["x"], list(image.lists["l"]), list(image.lists["m"])) == (b"1", [b"a"], [b"b"])


def test_a_patch_knows_its_size() -> None:
    assert Patch().is_empty
    patch = Patch(values={"x": b"12"}, appends={"l": (b"3", b"45")}, rewrites={"m": (b"6",)})
    assert (patch.is_empty, patch.byte_size) == (False, 6)


def test_the_first_version_is_zero() -> None:
    assert Version(0, "") == Version.ZERO
    assert StateImage().version == Version.ZERO
