"""Find the documents of a folder."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG

from examples.review.document import Document, LeftOut

MAX_DOCUMENTS = 500


@dataclass(slots=True)
class Listing:
    """What a folder holds, both lists in the order of names."""

    documents: list[Document] = field(default_factory=list[Document])
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])


def list_folder(folder: Path, exclude: frozenset[Path] = frozenset()) -> Listing:
    """List the files below ``folder``, hidden ones apart; a file with several names is one document.

    Args:
        folder: An existing folder.
        exclude: Absolute paths to pass over in silence, such as the last report.

    Raises:
        NotADirectoryError: ``folder`` is none.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder: name one that holds the documents to review.")
    root = Path(os.path.realpath(folder))
    listing, found = Listing(), dict[str, Document]()
    paths = sorted(set(_walk(root, listing)) - exclude, key=lambda path: path.as_posix().casefold())
    # A file goes by its own name where it has one here; links come second.
    for path in sorted(paths, key=Path.is_symlink):
        _add(root, path, listing, found)
    ranked = sorted(found.values(), key=_rank)
    listing.documents = ranked[:MAX_DOCUMENTS]
    for document in ranked[MAX_DOCUMENTS:]:
        listing.left_out.append(LeftOut(name=document.name, reason=f"more than {MAX_DOCUMENTS} documents"))
    listing.left_out.sort(key=_rank)
    return listing


def _rank(item: Document | LeftOut) -> tuple[str, str]:
    return item.name.casefold(), item.name


def _walk(root: Path, listing: Listing) -> Iterator[Path]:
    def note(error: OSError) -> None:
        _leave_out(root, Path(error.filename), error.strerror or "cannot be read", listing)

    for parent, folders, files in os.walk(root, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        linked = [name for name in folders if Path(parent, name).is_symlink()]
        for name in linked:
            _leave_out(root, Path(parent, name), "a link to a folder, not followed", listing)
        yield from (Path(parent, name) for name in files if not name.startswith("."))


def _add(root: Path, path: Path, listing: Listing, found: dict[str, Document]) -> None:
    name = path.relative_to(root).as_posix()
    try:
        real = os.path.realpath(path, strict=True)
        real.encode()
        name.encode()
        status = Path(real).stat()
    except UnicodeEncodeError:
        return _leave_out(root, path, "its name is not UTF-8", listing)
    except OSError as error:
        return _leave_out(root, path, error.strerror or "cannot be read", listing)
    if not S_ISREG(status.st_mode):
        return _leave_out(root, path, "not a regular file", listing)
    if real in found:
        found[real].aliases.append(name)
        return None
    identity = f"{name}:{status.st_size}:{status.st_mtime_ns}"
    found[real] = Document(id=identity, name=name, path=real, size_bytes=status.st_size)
    return None


def _leave_out(root: Path, path: Path, reason: str, listing: Listing) -> None:
    name = path.relative_to(root).as_posix().encode(errors="replace").decode()
    listing.left_out.append(LeftOut(name=name, reason=reason[:1].lower() + reason[1:]))
