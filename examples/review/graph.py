"""The graph: list the documents, review each in a task of its own, write the report. A model, if any, adds summaries.

Workers take it as ``examples.review.graph:app``, started in the root of the repository.
"""

import os
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from examples.review.analysis import review
from examples.review.chart import draw_rules
from examples.review.document import Document, Review
from examples.review.folder import list_folder
from examples.review.reading import NotTextError, read_document
from examples.review.report import write_markdown
from examples.review.state import ReviewState
from examples.review.summary import MODEL_VARIABLE, Summary, summarise
from tenxgraph.core.graph import CompiledGraph, StateGraph
from tenxgraph.core.state import Message
from tenxgraph.utils import END, START, Send, emit

LICENCES = Path("/usr/share/common-licenses")
ROOT = Path(__file__).resolve().parents[2]
REPORT_DIR = Path("build/review")
REPORT_NAME = "review-report.md"
CHART_NAME = "review-rules.svg"
EACH_DOCUMENT = ("review_document", "summarise_document")


def default_folder() -> Path:
    """Return the folder that is reviewed if none is named."""
    return LICENCES if LICENCES.is_dir() else ROOT / "docs"


def list_documents(state: ReviewState) -> dict[str, object]:
    """Find the documents, and make sure that the report can be written before the work is done."""
    folder = Path(state.folder or default_folder()).absolute()
    report_dir = Path(os.path.realpath(state.report_dir or REPORT_DIR))
    _make_dir(report_dir)
    listing = list_folder(folder, frozenset({report_dir / REPORT_NAME, report_dir / CHART_NAME}))
    emit({"found": len(listing.documents), "folder": str(folder)})
    return {
        "folder": str(folder),
        "report_dir": str(report_dir),
        "documents": listing.documents,
        "left_out": listing.left_out,
        "model": state.model or os.environ.get(MODEL_VARIABLE, ""),
    }


def _make_dir(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"The report cannot go to {path} ({error.strerror}): name another folder for it.") from error


def each_document(state: ReviewState) -> list[Send] | str:
    """Start a task for each document, and one more where a model is configured; without any, write the report."""
    nodes = EACH_DOCUMENT if state.model else EACH_DOCUMENT[:1]
    return [Send(node, {"document": document}) for node in nodes for document in state.documents] or "write_report"


def review_document(state: ReviewState) -> dict[str, list[Review]]:
    """Review the document of this task."""
    outcome = review(_own_document(state))
    found = outcome.measures
    counts = {} if found is None else {"words": found.words, "rules": found.rules}
    emit({"document": outcome.name, "problem": outcome.problem, **counts})
    return {"reviews": [outcome]}


async def summarise_document(state: ReviewState) -> dict[str, list[Summary]]:
    """Let the model summarize the document of this task; what is no text has no summary."""
    document = _own_document(state)
    try:
        text = read_document(Path(document.path), document.name).text
    except (OSError, NotTextError):
        return {}  # its review says why
    summary = Summary(id=document.id, text=await summarise(state.model, text))
    emit({"summarised": document.name})
    return {"summaries": [summary]}


def _own_document(state: ReviewState) -> Document:
    if state.document is None:
        raise ValueError("This node needs a document: start it by Send(…, {'document': …}).")
    return state.document


def write_report(state: ReviewState) -> dict[str, object]:
    """Write the report and its chart."""
    outcomes = state.outcomes()
    reviews = [outcome.review for outcome in outcomes]
    measured = [(review.name, review.measures) for review in reviews if review.measures is not None]
    chart = CHART_NAME if measured else None
    if chart is not None:
        _write(Path(state.report_dir, chart), draw_rules(measured))
    today = datetime.now().astimezone().date()
    report = Path(state.report_dir, REPORT_NAME)
    _write(report, write_markdown(state.folder, outcomes, state.left_out, chart, today))
    emit({"report": str(report)})
    answer = Message.text_message(f"Documents reviewed: {len(measured)}. The report: {report}", role="assistant")
    return {"report_path": str(report), "messages": [answer]}


def _write(path: Path, text: str) -> None:
    """Replace a file at once: whoever reads it never sees half of it, also where a task is repeated."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_text(text, encoding="utf-8", newline="\n")
    draft.replace(path)


def build() -> StateGraph[ReviewState]:
    """Return the graph, not yet compiled."""
    return (
        StateGraph(ReviewState, name="review")
        .add_node(list_documents)
        .add_node(review_document, timeout_s=120)
        .add_node(summarise_document, timeout_s=300)
        .add_node(write_report)
        .add_edge(START, "list_documents")
        .add_conditional_edges("list_documents", each_document, [*EACH_DOCUMENT, "write_report"])
        .add_edge("review_document", "write_report")
        .add_edge("summarise_document", "write_report")
        .add_edge("write_report", END)
    )


app: CompiledGraph[ReviewState] = build().compile()
