"""Read the bytes of an image or a file from inside a node or a tool."""

from typing import TYPE_CHECKING

from tenxgraph.utils.task_context import current_task

if TYPE_CHECKING:
    from tenxgraph.core.state.blocks import DataBlock
    from tenxgraph.core.state.media import MediaRef


def load_media(media: "MediaRef | DataBlock | str") -> bytes:
    """Return the bytes of media of this thread, whether they lie in the store or inline in the reference.

    It reads the store and waits for it: in an async node call ``await asyncio.to_thread(load_media, media)``.

    Args:
        media: A reference, a data block, or the ``file_id`` of a reference.

    Raises:
        InvalidInputError: ``NO_MEDIA``; the thread keeps no such media, or the reference leads elsewhere.
        GraphError: ``NO_TASK``; no node runs here. Outside of nodes it is ``app.media(config, file_id)``.
    """
    return current_task("load_media").load_media(media)
