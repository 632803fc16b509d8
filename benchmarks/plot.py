"""How do a few curves look? A plain SVG with logarithmic x, for the pages in docs/."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 150, 40, 46
COLOURS = ("#0b6e4f", "#c1440e", "#33658a", "#7a5195")

Points = Sequence[tuple[float, float]]


def curves(series: Mapping[str, Points], *, title: str, across: str, up: str) -> str:
    """All values from zero upwards; each curve is named at its end."""
    xs = sorted({x for points in series.values() for x, _ in points})
    top = _round_up(max(y for points in series.values() for _, y in points))

    def place(x: float, y: float) -> tuple[float, float]:
        share = math.log(x / xs[0]) / math.log(xs[-1] / xs[0]) if len(xs) > 1 else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="14" fill="#222222">{title}</text>',
    ]
    for step in range(5):
        value = top * step / 4
        _, y = place(xs[0], value)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#555555">{value:g}</text>')
    for x in xs:
        at, _ = place(x, 0)
        label = f"{x:,.0f}"
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - 26}" text-anchor="middle" fill="#555555">{label}</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle" fill="#222222">{across}</text>'
    )
    parts.append(f'<text x="14" y="{TOP - 6}" fill="#222222">{up}</text>')
    for (name, points), colour in zip(series.items(), COLOURS * 3, strict=False):
        placed = [place(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        parts.append(f'<text x="{placed[-1][0] + 8:.1f}" y="{placed[-1][1] + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _round_up(value: float) -> float:
    size = 10 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(size * step for step in (1, 2, 2.5, 5, 10) if size * step >= value)
