"""The state of a review."""

from typing import Annotated

from examples.review.document import Document, LeftOut, Outcome, Review
from examples.review.summary import Summary
from tenxgraph.core.state import AgentState
from tenxgraph.core.state.reducers import append_items


class ReviewState(AgentState):
    """What the nodes share; ``folder`` and ``report_dir`` are the input.

    Attributes:
        folder: Folder to review; empty is the licence texts of the system, else the project's own documentation.
        report_dir: Folder that the report goes to; empty is ``build/review`` below the current folder.
        documents: What there is to review, in the order of names.
        left_out: What was not even tried.
        document: The document of one task.
        reviews: Outcomes, in the order of ``documents``; on a thread that reviewed before, also the earlier ones.
        model: Language model that summarizes each document; empty is the one that the environment names, if any.
        summaries: What it wrote, in the order of ``documents``.
        report_path: Where the report lies.
    """

    folder: str = ""
    report_dir: str = ""
    documents: list[Document] = []
    left_out: list[LeftOut] = []
    document: Document | None = None
    reviews: Annotated[list[Review], append_items] = []
    model: str = ""
    summaries: Annotated[list[Summary], append_items] = []
    report_path: str = ""

    def outcomes(self) -> list[Outcome]:
        """Return the documents of this run with what was found out about them."""
        reviews = {review.id: review for review in self.reviews}
        summaries = {summary.id: summary.text for summary in self.summaries}
        return [Outcome(it, reviews[it.id], summaries.get(it.id, "")) for it in self.documents]
