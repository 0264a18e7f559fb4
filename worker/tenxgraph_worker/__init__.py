"""Workers: they run nodes of graphs as Celery tasks."""

from typing import TYPE_CHECKING

from tenxgraph._lazy import lazy

if TYPE_CHECKING:
    from tenxgraph_worker.app import make_app
    from tenxgraph_worker.joining import install

__all__ = ["install", "make_app"]

__getattr__, __dir__ = lazy(__name__, {"install": "tenxgraph_worker.joining", "make_app": "tenxgraph_worker.app"})
