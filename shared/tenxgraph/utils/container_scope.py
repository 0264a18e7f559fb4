"""The graph's container, where code that a graph runs asks injectq itself for one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from injectq import InjectQ


@contextmanager
def container_scope(container: "InjectQ | None") -> Iterator[None]:
    """Make ``container`` the one that ``@inject`` and ``InjectQ.get_instance()`` find in this context and its copies.

    None changes nothing.
    """
    if container is None:
        yield
        return
    from injectq import ContainerContext

    # Its own `use` also sets a thread-local, which the async nodes of all graphs, on their one loop, would share.
    token = ContainerContext._context_var.set(container)
    try:
        yield
    finally:
        ContainerContext._context_var.reset(token)
