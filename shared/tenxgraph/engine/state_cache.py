"""Encoded states that this process has seen lately, so that a step reads only what is new."""

import threading
from collections import OrderedDict

from tenxgraph.core.state.image import StateImage


class StateCache:
    """The newest image of each of the last ``size`` threads. Images are immutable, so sharing them is safe."""

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._images: OrderedDict[str, StateImage] = OrderedDict()

    def get(self, thread_id: str) -> StateImage | None:
        """The image seen last, if it is kept."""
        with self._lock:
            return self._images.get(thread_id)

    def put(self, thread_id: str, image: StateImage) -> None:
        """Keep an image, and forget the one unused for longest."""
        with self._lock:
            self._images[thread_id] = image
            self._images.move_to_end(thread_id)
            while len(self._images) > self._size:
                self._images.popitem(last=False)

    def offer(self, thread_id: str, image: StateImage) -> None:
        """Keep an image that came along with a message, unless a newer one is here."""
        known = self.get(thread_id)
        if known is None or known.version.number < image.version.number:
            self.put(thread_id, image)
