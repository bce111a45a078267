"""A figure as SVG text: one line a case, one dot a provider, times on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

COLOURS = ("#0b6e4f", "#6fb98f", "#c1440e", "#e08e45", "#7a5195", "#8d99ae")
LEFT, WIDTH, ROW, TOP = 520, 460, 26, 64


def dots(title: str, lines: Sequence[tuple[str, Mapping[str, float]]], names: Sequence[str]) -> str:
    """Draws the times of several providers.

    Args:
        title: What the axis shows.
        lines: Case and its times by provider, all above 0.
        names: Providers in the order of their colours; others are left out.
    """
    shown = [name for name in names if any(name in times for _, times in lines)]
    values = [times[name] for _, times in lines for name in shown if name in times] or [1.0]
    low = math.floor(math.log10(min(values)))
    high = max(low + 1, math.ceil(math.log10(max(values))))
    height = TOP + ROW * len(lines) + 40
    bottom = TOP + ROW * len(lines)

    def place(value: float) -> float:
        return LEFT + WIDTH * (math.log10(value) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 40}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{LEFT + WIDTH + 40}" height="{height}" fill="white"/>',
        _text(LEFT, 20, title, size=14),
    ]
    for at, name in enumerate(shown):
        x = 16 + at * 145
        parts.append(_dot(x, 40, COLOURS[names.index(name)]))
        parts.append(_text(x + 9, 44, name))
    for power in range(low, high + 1):
        x = place(10.0**power)
        parts.append(f'<path d="M{x:.1f} {TOP - 6}V{bottom}" stroke="#dddddd"/>')
        parts.append(_text(x, bottom + 18, f"{10.0**power:g}", anchor="middle"))
    for at, (case, times) in enumerate(lines):
        y = TOP + ROW * at + ROW // 2
        parts.append(_text(LEFT - 12, y + 4, case, anchor="end"))
        parts.append(f'<path d="M{LEFT} {y}h{WIDTH}" stroke="#eeeeee"/>')
        for name in reversed(shown):  # ours on top
            if name in times:
                parts.append(_dot(place(times[name]), y, COLOURS[names.index(name)]))
    return "\n".join([*parts, "</svg>", ""])


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{colour}"/>'


def _text(x: float, y: float, words: str, *, size: int = 12, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="#222222">{escape(words)}</text>'
    )
