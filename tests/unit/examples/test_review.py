"""The example that reviews documents: its analysis against values counted by hand, and whole runs in process."""

import os
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer import Exit

from examples.review.__main__ import main, review_folder
from examples.review.analysis import measure, review
from examples.review.chart import MAX_BARS, draw_rules
from examples.review.document import Document, Measures, Review, RuleKind
from examples.review.folder import list_folder
from examples.review.graph import CHART_NAME, REPORT_NAME, app, build
from examples.review.markdown import escape, shorten, table
from examples.review.prose import count_syllables, describe_ease, reading_ease, split_sentences, split_words
from examples.review.reading import MAX_BYTES, NotTextError, Text, decode, read_document, strip_markdown
from examples.review.report import MAX_ROWS
from examples.review.rules import choose_quotes, classify, find_rules
from examples.review.state import ReviewState
from examples.review.summary import MODEL_VARIABLE
from examples.review.terms import find_terms, most_similar
from tenxgraph.core.exceptions import NodeError, RunCancelledError
from tenxgraph.core.graph import CompiledGraph
from tenxgraph.core.state import Message
from tenxgraph.store.memory import MemoryStore

LEASE = "The tenant must pay the rent. The tenant may not keep dogs.\nThe tenant may leave early, provided that\n"
LEASE += "a month has passed.\n"
POEM = "The cat sat on the mat.\n\nIt was fat.\n"


def in_process() -> CompiledGraph[ReviewState]:
    return build().compile(checkpointer=MemoryStore())


def request(folder: Path, out: Path) -> dict[str, Any]:
    return {"messages": [Message.text_message("Go")], "state": {"folder": str(folder), "report_dir": str(out)}}


def run(folder: Path, out: Path) -> ReviewState:
    state = in_process().invoke(request(folder, out), response_granularity="full")["state"]
    assert isinstance(state, ReviewState)
    return state


def report_of(folder: Path, out: Path) -> str:
    return Path(run(folder, out).report_path).read_text(encoding="utf-8")


def names(items: Sequence[Any]) -> list[str]:
    return [item.name for item in items]


@pytest.fixture(autouse=True)
def without_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODEL_VARIABLE, raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "documents"
    path.mkdir()
    path.joinpath("lease.txt").write_text(LEASE)
    path.joinpath("Poem.txt").write_text(POEM)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


class TestProse:
    def test_a_sentence_may_go_over_lines_and_ends_at_a_blank_line(self) -> None:
        text = "One two\nthree. Four!\n\nA heading\n\nThe end"
        assert split_sentences(text) == ["One two three.", "Four!", "A heading", "The end"]

    def test_an_abbreviation_ends_no_sentence(self) -> None:
        assert len(split_sentences("Fruit, e.g. apples, is fine. So is bread.")) == 2

    def test_lines_without_words_and_frames_of_asterisks_are_dropped(self) -> None:
        assert split_sentences("*****\n\n* Take care. *\n\n42.\n") == ["Take care."]

    def test_words_are_runs_of_letters(self) -> None:
        assert split_words("Don't re-use 3 été's x_y.") == ["Don't", "re-use", "été's", "x", "y"]

    @pytest.mark.parametrize(
        ("word", "syllables"),
        [("cat", 1), ("A", 1), ("license", 2), ("TABLE", 2), ("banana", 2), ("obligation", 3), ("permission", 3)],
    )
    def test_syllables_are_hyphenation_points_plus_one(self, word: str, syllables: int) -> None:
        assert count_syllables(word) == syllables

    def test_reading_ease_is_flesch_s(self) -> None:
        # 206.835 - 1.015 * 100 / 5 - 84.6 * 150 / 100 = 206.835 - 20.3 - 126.9
        assert reading_ease(words=100, sentences=5, syllables=150) == 59.6

    @pytest.mark.parametrize(
        ("ease", "name"),
        [(120, "very easy"), (90, "very easy"), (60, "plain"), (59.9, "fairly hard"), (-5, "very hard")],
    )
    def test_the_bands_of_reading_ease_have_names(self, ease: float, name: str) -> None:
        assert describe_ease(ease) == name


class TestRules:
    @pytest.mark.parametrize(
        "sentence",
        [
            "You must give notice.",
            "The licensee SHALL pay.",
            "You are required to keep this notice.",
            "Copies go out, provided that the notice stays.",
            "You may copy it but must keep the notice.",
            "You have to ask.",
        ],
    )
    def test_what_obliges(self, sentence: str) -> None:
        assert classify(sentence) is RuleKind.OBLIGATION

    @pytest.mark.parametrize(
        "sentence",
        [
            "You may not sell it.",
            "You must not remove it, and you must say so.",
            "Neither the name nor the mark may be used.",
            "In no event shall the author be liable.",
            "You cannot impose terms.",
            "Changing it is not allowed.",
        ],
    )
    def test_what_forbids(self, sentence: str) -> None:
        assert classify(sentence) is RuleKind.PROHIBITION

    @pytest.mark.parametrize(
        "sentence",
        [
            "You may copy it.",
            "You need not ask.",
            "You are not required to accept it.",
            "Use is permitted provided that the notice stays.",
            "This shall be construed as a gift, and you may keep it.",
        ],
    )
    def test_what_allows(self, sentence: str) -> None:
        assert classify(sentence) is RuleKind.PERMISSION

    @pytest.mark.parametrize(
        "sentence",
        [
            "The cat sat on the mat.",
            '"Work" shall mean the text.',
            "It came out on May 3, 2007.",
            "The limits may not apply to you.",
            "Mustard and shallots.",
        ],
    )
    def test_what_binds_nobody(self, sentence: str) -> None:
        assert classify(sentence) is None

    def test_a_condition_is_noted(self) -> None:
        rules = find_rules(
            ["You may go, provided that you return.", "You may go.", "Stay!", "You must stay unless ill."]
        )
        assert [rule.is_conditional for rule in rules] == [True, False, True]

    def test_of_each_kind_the_best_is_quoted_without_its_list_mark(self) -> None:
        long = "You must " + "very " * 60 + "carefully read this."
        clear = "b) You must keep the notice at the top of each copy."
        rules = find_rules(["It must rain.", long, clear, "You may not sell copies of this text to anybody at all."])
        assert [quote.text for quote in choose_quotes(rules)] == [
            "You must keep the notice at the top of each copy.",
            "You may not sell copies of this text to anybody at all.",
        ]


class TestTerms:
    TEXT = (
        "A beehive needs a beekeeper. The beekeeper opens the beehive. "
        "The beekeeper knows the queen bee. A queen bee lives long. The beehive is warm."
    )

    def test_terms_are_in_lower_case_and_of_the_text(self) -> None:
        terms = find_terms(split_sentences(self.TEXT))
        assert {"beehive", "beekeeper"} <= {word for term in terms for word in term.split()}
        assert all(term == term.lower() and term in self.TEXT.lower() for term in terms)

    def test_no_term_contains_another(self) -> None:
        words = [set(term.split()) for term in find_terms(split_sentences(self.TEXT))]
        assert not [1 for at, one in enumerate(words) for other in words[at + 1 :] if one <= other or other <= one]

    def test_no_sentence_has_no_term(self) -> None:
        assert find_terms([]) == []

    def test_pairs_are_ranked_by_what_they_share_of_all_their_terms(self) -> None:
        pairs = most_similar(
            [("a", ["v", "w", "x", "y"]), ("b", ["z", "y", "x", "w"]), ("c", ["v", "w", "y", "x"]), ("d", ["w", "x"])]
        )
        assert [(pair.first, pair.second, pair.share) for pair in pairs] == [
            ("a", "c", 1),
            ("a", "b", 3 / 5),
            ("b", "c", 3 / 5),
        ]
        assert pairs[1].terms == ("w", "x", "y")

    def test_only_the_closest_pairs_are_returned(self) -> None:
        same = [(name, ["x", "y", "z"]) for name in "abcd"]
        assert [(pair.first, pair.second) for pair in most_similar(same, most=2)] == [("a", "b"), ("a", "c")]


class TestReading:
    @pytest.mark.parametrize("data", [b"", b" \n\t\r\n"])
    def test_nothing_is_empty(self, data: bytes) -> None:
        with pytest.raises(NotTextError, match="empty"):
            decode(data)

    @pytest.mark.parametrize("data", [b"\x7fELF\0\0", bytes(range(1, 256))])
    def test_zeros_and_control_characters_are_binary(self, data: bytes) -> None:
        with pytest.raises(NotTextError, match="binary"):
            decode(data)

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            ("Grüße".encode(), Text("Grüße")),
            ("Grüße".encode("utf-8-sig"), Text("Grüße")),
            ("Grüße".encode("utf-16"), Text("Grüße", "UTF-16")),
            ("“Grüße”".encode("cp1252"), Text("“Grüße”", "not UTF-8, read as Windows-1252")),
            (b"one\r\ntwo\rthree\x0cfour\n", Text("one\ntwo\nthree\nfour")),
        ],
    )
    def test_text_is_decoded_and_guesses_are_noted(self, data: bytes, text: Text) -> None:
        assert decode(data) == text

    def test_a_file_that_is_too_large_is_not_read_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "large"
        path.write_bytes(b"word " * (MAX_BYTES // 5) + b"more")
        with pytest.raises(NotTextError, match="larger than 1,024 KiB"):
            read_document(path, "large")

    def test_only_the_prose_of_markdown_is_read(self) -> None:
        text = "# Title\nSee [the page](http://x/y).\n```py\ncode()\n```\n| a | b |\n<!-- no -->\n"
        text += "- *one*\n- `two`\n> three\n"
        assert split_sentences(strip_markdown(text)) == ["Title", "See the page.", "one", "two three"]

    def test_the_name_says_what_is_markdown(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_text("# Title\n")
        assert read_document(path, "a.MD").text.strip() == "Title"
        assert read_document(path, "a.txt").text == "# Title"


class TestMeasures:
    def test_a_text_is_measured_as_by_hand(self) -> None:
        found = measure(Text(LEASE))
        assert (found.words, found.sentences) == (23, 3)
        assert (found.obligations, found.prohibitions, found.permissions, found.conditional) == (1, 1, 1, 1)
        # 7 + 7 + 15 syllables: 206.835 - 1.015 * 23 / 3 - 84.6 * 29 / 23
        assert found.reading_ease == 92.4
        assert [quote.kind for quote in found.quotes] == list(RuleKind)
        assert found.quotes[2].text == "The tenant may leave early, provided that a month has passed."

    def test_a_text_without_words_has_no_measures(self) -> None:
        with pytest.raises(NotTextError, match="no words"):
            measure(Text("1 + 1 = 2\n----\n"))

    def test_a_file_that_is_gone_is_a_problem_and_no_error(self, tmp_path: Path) -> None:
        outcome = review(Document(id="x", name="gone.txt", path=str(tmp_path / "gone.txt"), size_bytes=1))
        assert outcome == Review(id="x", name="gone.txt", problem="no such file or directory")


class TestFolder:
    def test_documents_come_in_the_order_of_names_with_their_path_in_the_folder(self, folder: Path) -> None:
        folder.joinpath("b").mkdir()
        folder.joinpath("b", "inner.txt").write_text("Inside.")
        listing = list_folder(folder)
        assert names(listing.documents) == ["b/inner.txt", "lease.txt", "Poem.txt"]
        assert listing.documents[1].size_bytes == len(LEASE)
        assert listing.left_out == []

    def test_what_is_hidden_or_excluded_is_passed_over(self, folder: Path) -> None:
        folder.joinpath(".git").mkdir()
        folder.joinpath(".git", "config").write_text("x")
        folder.joinpath(".hidden").write_text("x")
        assert names(list_folder(folder, frozenset({folder / "Poem.txt"})).documents) == ["lease.txt"]

    def test_a_linked_file_is_one_document_under_its_own_name(self, folder: Path) -> None:
        folder.joinpath("a-link").symlink_to("lease.txt")
        folder.joinpath("z-link").symlink_to("a-link")
        documents = list_folder(folder).documents
        assert names(documents) == ["lease.txt", "Poem.txt"]
        assert documents[0].aliases == ["a-link", "z-link"]

    def test_a_link_out_of_the_folder_goes_by_the_name_of_the_link(self, folder: Path, tmp_path: Path) -> None:
        target = tmp_path / "elsewhere.txt"
        target.write_text("Elsewhere.")
        folder.joinpath("first").symlink_to(target)
        folder.joinpath("second").symlink_to(target)
        documents = list_folder(folder).documents
        assert names(documents) == ["first", "lease.txt", "Poem.txt"]
        assert (documents[0].path, documents[0].aliases) == (str(target.resolve()), ["second"])

    def test_loops_and_dead_links_and_pipes_are_left_out_with_a_reason(self, folder: Path) -> None:
        folder.joinpath("dead").symlink_to("nowhere")
        folder.joinpath("folder-loop").symlink_to(folder)
        folder.joinpath("loop").symlink_to("loop")
        os.mkfifo(folder / "pipe")
        listing = list_folder(folder)
        assert names(listing.documents) == ["lease.txt", "Poem.txt"]
        assert [(item.name, item.reason) for item in listing.left_out] == [
            ("dead", "no such file or directory"),
            ("folder-loop", "a link to a folder, not followed"),
            ("loop", "too many levels of symbolic links"),
            ("pipe", "not a regular file"),
        ]

    @pytest.mark.skipif(sys.platform != "linux", reason="other systems make no such names")
    def test_a_name_that_is_no_text_is_left_out(self, folder: Path) -> None:
        Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")).write_text("x")
        listing = list_folder(folder)
        assert [(item.name, item.reason) for item in listing.left_out] == [("?.txt", "its name is not UTF-8")]

    def test_there_is_a_limit(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("examples.review.folder.MAX_DOCUMENTS", 1)
        listing = list_folder(folder)
        assert names(listing.documents) == ["lease.txt"]
        assert [(item.name, item.reason) for item in listing.left_out] == [("Poem.txt", "more than 1 documents")]

    def test_a_document_that_changed_is_another(self, folder: Path) -> None:
        before = list_folder(folder).documents
        folder.joinpath("lease.txt").write_text("Short.")
        after = list_folder(folder).documents
        assert before[0].id != after[0].id
        assert before[1].id == after[1].id

    def test_a_folder_that_is_none_is_refused_by_name(self, folder: Path) -> None:
        with pytest.raises(NotADirectoryError, match=r"lease\.txt is no folder"):
            list_folder(folder / "lease.txt")


class TestMarkdown:
    def test_special_characters_and_line_breaks_are_shown_as_they_are(self) -> None:
        assert escape("a|b\n*c* <d> [e](f)\x07") == r"a\|b \*c\* \<d\> \[e\](f)"

    def test_text_is_cut_after_a_word(self) -> None:
        assert shorten("one two, three", 12) == "one two …"
        assert shorten("one two", 7) == "one two"

    def test_columns_of_numbers_are_aligned_at_the_right(self) -> None:
        assert table(("a", "b"), [("x", "1")], right=[1]) == "| a | b |\n| --- | --: |\n| x | 1 |"


class TestChart:
    def measures(self, rules: int) -> Measures:
        found = measure(Text(POEM))
        return found.model_copy(update={"obligations": rules, "permissions": 1})

    def test_the_chart_is_an_svg_with_each_document(self) -> None:
        svg = draw_rules([("One", self.measures(2)), ("Two & <three>\x01", self.measures(0))])
        texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.text]
        assert {"One", "Two & <three>", "must", "must not", "may"} <= set(texts)

    def test_the_same_texts_give_the_same_chart_without_date_and_scripts(self) -> None:
        measured = [("One", self.measures(2))]
        assert draw_rules(measured) == draw_rules(measured)
        assert "<script" not in draw_rules(measured)
        assert "<!--" not in draw_rules(measured)

    def test_of_many_documents_those_with_most_rules_are_drawn(self) -> None:
        svg = draw_rules([(f"name-{rules:02}", self.measures(rules)) for rules in range(MAX_BARS + 1)])
        assert "name-00" not in svg
        assert "name-20" in svg

    def test_it_leaves_no_import_hook_behind(self) -> None:
        draw_rules([("One", self.measures(2))])
        assert [finder for finder in sys.meta_path if not hasattr(finder, "find_spec")] == []


REPORT = """\
# Review of {folder}

Reviewed on DATE.

## Summary

**2 documents** with 32 words: 1 min of reading, and 3 rules, 1 on a condition.

- Longest: **lease.txt**, 23 words, 1 min.
- Easiest to read: **Poem.txt**, 117.7 (very easy). Hardest: **lease.txt**, 92.4 (very easy).

## Documents

| Document | Words | Sentences | Reading ease | Must | Must not | May | Key terms |
| --- | --: | --: | --: | --: | --: | --: | --- |
| lease.txt | 23 | 3 | 92.4 | 1 | 1 | 1 | {lease_terms} |
| Poem.txt | 9 | 2 | 117.7 | 0 | 0 | 0 | {poem_terms} |

![Rules per document: how many sentences oblige, forbid and allow](review-rules.svg)

## What they ask

### lease.txt

23 words, 1 min · reading ease 92.4 (very easy) · 3 rules, 1 on a condition · also as copy\\_of\\_lease

- *Must:* “The tenant must pay the rent.”
- *Must not:* “The tenant may not keep dogs.”
- *May, on a condition:* “The tenant may leave early, provided that a month has passed.”

### Poem.txt

9 words, 1 min · reading ease 117.7 (very easy) · no rules

## Left out

| File | Reason |
| --- | --- |
| blank.txt | empty |
| dead | no such file or directory |

## How this was measured
"""


def dateless(report: str) -> str:
    lines = report.splitlines(keepends=True)
    assert sum(line.startswith("Reviewed on ") for line in lines) == 1
    return "".join("Reviewed on DATE.\n" if line.startswith("Reviewed on ") else line for line in lines)


class TestRun:
    def test_the_report_says_what_was_found(self, folder: Path, out: Path) -> None:
        folder.joinpath("copy_of_lease").symlink_to("lease.txt")
        folder.joinpath("dead").symlink_to("nowhere")
        folder.joinpath("blank.txt").write_text("\n")
        terms = {f"{name}_terms": ", ".join(measure(Text(text)).terms[:4]) for name, text in KNOWN}
        golden = REPORT.format(folder=escape(str(folder)), **terms)
        found, method = dateless(report_of(folder, out)).split("## How this was measured\n")
        assert found + "## How this was measured\n" == golden
        assert "Flesch" in method

    def test_the_same_folder_gives_the_same_bytes_and_no_other_files(self, folder: Path, tmp_path: Path) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        assert dateless(report_of(folder, one)) == dateless(report_of(folder, two))
        assert one.joinpath(CHART_NAME).read_bytes() == two.joinpath(CHART_NAME).read_bytes()
        assert sorted(path.name for path in one.iterdir()) == [REPORT_NAME, CHART_NAME]

    def test_reviews_are_merged_in_the_order_of_the_documents(self, folder: Path, out: Path) -> None:
        for number in range(12):
            folder.joinpath(f"{number:02}.txt").write_text(f"Text {'very ' * (12 - number) * 50} long.")
        state = run(folder, out)
        assert names(state.reviews) == names(state.documents)
        assert len(state.reviews) == 14

    def test_hostile_files_end_up_in_the_report(self, folder: Path, out: Path) -> None:
        folder.joinpath("binary.bin").write_bytes(bytes(range(256)))
        folder.joinpath("empty.txt").touch()
        folder.joinpath("latin.txt").write_bytes("Die Straße ist groß.".encode("latin-1"))
        folder.joinpath("line.txt").write_text("never ending " * 20_000)
        folder.joinpath("loop").symlink_to("loop")
        folder.joinpath("numbers.txt").write_text("1 2 3\n")
        folder.joinpath("pipe | <b>\n*x*").write_text("You must escape.")
        report = report_of(folder, out)
        for line in (
            "| binary.bin | binary |",
            "| empty.txt | empty |",
            "| loop | too many levels of symbolic links |",
            "| numbers.txt | no words |",
        ):
            assert line in report
        assert "not UTF-8, read as Windows-1252" in report
        assert "| line.txt | 40,000 | 1 |" in report
        assert r"### pipe \| \<b\> \*x\*" in report

    def test_a_long_list_of_files_left_out_is_cut(self, folder: Path, out: Path) -> None:
        for number in range(MAX_ROWS + 2):
            folder.joinpath(f"{number:03}.txt").touch()
        report = report_of(folder, out)
        assert report.count("| empty |") == MAX_ROWS
        assert "And 2 more." in report

    def test_without_documents_there_is_a_report_that_says_so(self, tmp_path: Path, out: Path) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        assert "No document could be reviewed." in report_of(empty, out)
        assert not out.joinpath(CHART_NAME).exists()

    def test_a_report_inside_the_folder_is_not_reviewed_next_time(self, folder: Path) -> None:
        first = dateless(report_of(folder, folder))
        assert dateless(report_of(folder, folder)) == first

    def test_on_the_same_thread_only_the_documents_of_now_are_reported(self, folder: Path, out: Path) -> None:
        reviewer = in_process()
        reviewer.invoke(request(folder, out), {"thread_id": "weekly"})
        folder.joinpath("Poem.txt").unlink()
        folder.joinpath("lease.txt").write_text("You may go.")
        reviewer.invoke(request(folder, out), {"thread_id": "weekly"})
        report = out.joinpath(REPORT_NAME).read_text(encoding="utf-8")
        assert "**1 document** with 3 words" in report
        assert "Poem" not in report

    def test_the_run_tells_of_each_document(self, folder: Path, out: Path) -> None:
        chunks = list(in_process().stream(request(folder, out), response_granularity="partial"))
        told = [chunk.data for chunk in chunks if chunk.event == "custom"]
        assert told[0] == {"found": 2, "folder": str(folder)}
        assert sorted(told[1:3], key=str) == [
            {"document": "Poem.txt", "problem": "", "words": 9, "rules": 0},
            {"document": "lease.txt", "problem": "", "words": 23, "rules": 3},
        ]
        assert told[3:] == [{"report": str(out / REPORT_NAME)}]

    def test_a_model_adds_a_paragraph_for_each_document_that_is_text(
        self, folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(MODEL_VARIABLE, "test")
        folder.joinpath("blank.txt").touch()
        state = run(folder, out)
        assert [summary.id for summary in state.summaries] == [document.id for document in state.documents[1:]]
        report = out.joinpath(REPORT_NAME).read_text(encoding="utf-8")
        assert report.count("\n\nsuccess (no tool calls)\n\n") == 2

    def test_a_model_that_nobody_knows_is_named(self, folder: Path, out: Path) -> None:
        asked = request(folder, out)
        asked["state"]["model"] = "nobody:nothing"
        with pytest.raises(NodeError, match="nobody"):
            in_process().invoke(asked)

    def test_a_folder_for_the_report_that_is_a_file_is_refused_before_the_work(self, folder: Path) -> None:
        with pytest.raises(NodeError, match=r"list_documents.*name another folder"):
            run(folder, folder / "lease.txt")

    def test_workers_find_the_graph_by_its_name(self) -> None:
        assert app.name == "review"


class TestCommand:
    def test_progress_has_a_line_for_each_document_and_the_report_is_returned(self, folder: Path, out: Path) -> None:
        folder.joinpath("blank.txt").touch()
        shown = StringIO()
        report = review_folder(in_process(), folder, out, Console(file=shown, width=200))
        lines = shown.getvalue().splitlines()
        assert report == out / REPORT_NAME
        assert {"Looking for documents", f"3 documents in {folder}", "– blank.txt: empty"} <= set(lines)
        assert {"✓ lease.txt: 23 words, 3 rules", "✓ Poem.txt: 9 words, 0 rules", "Writing the report"} <= set(lines)

    def test_a_terminal_sees_a_bar_for_each_step(self, folder: Path, out: Path) -> None:
        shown = StringIO()
        review_folder(in_process(), folder, out, Console(file=shown, width=100, force_terminal=True))
        assert "Reviewing" in shown.getvalue()
        assert "2/2" in shown.getvalue()

    def test_the_command_says_where_the_report_lies(
        self, folder: Path, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A store that is configured but not there: the command runs in process all the same.
        monkeypatch.setenv("TENXGRAPH_REDIS_URL", "redis://127.0.0.1:1/0")
        main(folder, out)
        assert capsys.readouterr().out.splitlines()[-1] == f"The report: {out / REPORT_NAME}"

    def test_an_interrupted_review_is_cancelled(self, folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        class Impatient(StringIO):
            def write(self, text: str) -> int:
                raise KeyboardInterrupt

        reviewer = in_process()
        handle = reviewer.submit(request(folder, out))
        monkeypatch.setattr(reviewer, "submit", lambda _: handle)
        with pytest.raises(KeyboardInterrupt):
            review_folder(reviewer, folder, out, Console(file=Impatient()))
        with pytest.raises(RunCancelledError, match="interrupted at the terminal"):
            handle.result(timeout_s=30)

    def test_a_failed_review_is_a_sentence_and_an_exit_code(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(Exit) as caught:
            main(folder, folder / "lease.txt")
        assert caught.value.exit_code == 1
        assert "name another folder for it" in " ".join(capsys.readouterr().out.split())


KNOWN = (("lease", LEASE), ("poem", POEM))
