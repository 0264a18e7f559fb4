"""References to media and to sources: where the data is, never how to fetch it."""

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

EXACT_JSON: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants")
"""What every model here is configured with, so that JSON and back gives an equal model."""


class MediaRef(BaseModel):
    """Where an image, a sound, a video or a document is.

    Attributes:
        kind: Which of ``url``, ``file_id`` and ``data_base64`` holds the reference.
        url: Where to load it from.
        file_id: The provider's id of an uploaded file.
        data_base64: The data itself, base64; a URL or file id is better for anything large.
        mime_type: Such as ``image/png``.
        size_bytes: Size of the decoded data.
        sha256: Hex digest of the decoded data.
        filename: Name without folder.
        width: Pixels.
        height: Pixels.
        duration_ms: Length of a sound or video.
        page: Page of a document, from 1.
    """

    model_config = EXACT_JSON

    kind: Literal["url", "file_id", "data"] = "url"
    url: str | None = None
    file_id: str | None = None
    data_base64: str | None = None
    mime_type: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    filename: str | None = None
    width: int | None = None
    height: int | None = None
    duration_ms: int | None = None
    page: int | None = None


class AnnotationRef(BaseModel):
    """A source that a text cites: a page of the web, a file, or a place in one."""

    model_config = EXACT_JSON

    url: str | None = None
    file_id: str | None = None
    page: int | None = None
    index: int | None = None
    title: str | None = None
