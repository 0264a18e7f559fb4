"""The chart of a report."""

import re
import sys
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

from examples.review.document import Measures
from examples.review.markdown import on_one_line

MAX_BARS = 20

# Told apart by readers who do not see red and green (Okabe and Ito).
_SERIES = (
    ("must", "obligations", "#0072B2"),
    ("must not", "prohibitions", "#D55E00"),
    ("may", "permissions", "#009E73"),
)
# A comment holds the date; scripts do nothing in a picture.
_EXTRAS = re.compile(r"<!--.*?-->|<script.*?</script>", re.DOTALL)
_ROW_PX, _FRAME_PX, _WIDTH_PX = 30, 130, 860
_MAX_LABEL = 32


def draw_rules(measured: Sequence[tuple[str, Measures]]) -> str:
    """Draw how many rules each text holds, by kind, as an SVG; the same texts give the same SVG.

    Args:
        measured: Name and measures of each text; the ``MAX_BARS`` with most rules are drawn.
    """
    rows = sorted(measured, key=lambda row: -row[1].rules)[:MAX_BARS]
    rows.reverse()  # the first bar is drawn at the bottom
    chart = _pygal().HorizontalStackedBar(_config(len(rows)))
    chart.uuid = "rules"
    chart.x_labels = [_label(name) for name, _ in rows]
    for title, field, _ in _SERIES:
        chart.add(title, [getattr(measures, field) for _, measures in rows])
    svg: str = chart.render(is_unicode=True)
    return _EXTRAS.sub("", svg)


def _label(name: str) -> str:
    label = on_one_line(name)
    return label if len(label) <= _MAX_LABEL else f"…{label[1 - _MAX_LABEL :]}"


@cache
def _pygal() -> ModuleType:
    import pygal  # type: ignore[import-untyped]  # ships no types

    # Its finder for maps has no find_spec: Python 3.11 would warn at every later import of this process.
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, pygal.PluginImportFixer)]
    return pygal  # type: ignore[no-any-return]  # untyped, as above


def _config(rows: int) -> Any:
    config = _pygal().Config()
    config.js = ()
    config.title = "Sentences that oblige, forbid or allow"
    config.style = _pygal().style.Style(
        background="white",
        plot_background="white",
        colors=tuple(colour for _, _, colour in _SERIES),
        font_family="Helvetica, Arial, sans-serif",
        label_font_size=12,
        major_label_font_size=12,
        legend_font_size=13,
        title_font_size=17,
        opacity=1,
        transition="0s",
    )
    config.width, config.height = _WIDTH_PX, _FRAME_PX + _ROW_PX * rows
    config.legend_at_bottom, config.legend_at_bottom_columns = True, len(_SERIES)
    return config
