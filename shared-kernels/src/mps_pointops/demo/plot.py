"""A picture of the cloud, its centres and one group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mps_pointops.demo.device import Target
from mps_pointops.demo.errors import DemoError, missing_extra
from mps_pointops.demo.pipeline import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GROUP = "#d1495b"
_NEIGHBOUR = "#00798c"
_INK = "#30343a"
# the third panel shows this many radii around its centre
_ZOOM = 2.2
# width of a panel in inches
_PANEL = 5.0


@dataclass(frozen=True)
class View:
    """A flat view of a cloud along its shortest side.

    Attributes:
        across: Axis that points right.
        up: Axis that points up.
        depth: Axis that is looked along.
        toward: +1 if larger `depth` is nearer to the viewer, else -1.
    """

    across: int
    up: int
    depth: int
    toward: int


def choose_view(points: NDArray[np.float32]) -> View:
    """The right-handed view that shows the two longest sides of the cloud."""
    depth = int(np.argmin(np.ptp(points, axis=0)))
    if depth == 0:
        return View(across=1, up=2, depth=0, toward=1)
    if depth == 1:
        return View(across=0, up=2, depth=1, toward=-1)
    return View(across=0, up=1, depth=2, toward=1)


def check_target(path: Path) -> None:
    """Find out before the work whether a picture can be written there."""
    if path.suffix.lower() != ".png":
        raise DemoError(f"--plot writes a .png file, got {path}")
    if path.is_dir() or not path.parent.is_dir():
        raise DemoError(f"--plot: {path} cannot be written, there is no folder {path.parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise missing_extra("matplotlib", "--plot") from error


def choose_group(
    points: NDArray[np.float32], picks: NDArray[Any], hits: NDArray[Any], view: View
) -> int:
    """The centre whose group is shown.

    A ball that is not quite full shows both ends: where the ball stops and the neighbours go on.
    Of such balls on the viewer's side the one is taken whose points, as seen, lie around the
    centre and spread widely in both directions.
    """
    inside = (hits >= 0) & (hits < len(points))
    count = inside.sum(axis=1)
    partly = (count >= 0.6 * count.max()) & (count <= 0.95 * count.max())
    if not partly.any():
        partly = count == count.max()
    wide = points.astype(np.float64)
    near = view.toward * wide[picks, view.depth]
    partly &= near >= np.median(near[partly])
    seen = wide[:, [view.across, view.up]]
    best, highest = 0, -np.inf
    for row in np.flatnonzero(partly):
        offset = seen[hits[row][inside[row]]] - seen[picks[row]]
        if len(offset) == 0:
            offset = np.zeros((1, 2))
        middle = offset.mean(axis=0)
        narrowest = np.linalg.eigvalsh(np.cov(offset.T, bias=True))[0]
        if narrowest - middle @ middle > highest:
            best, highest = int(row), narrowest - middle @ middle
    return best


def draw(
    path: Path, title: str, points: NDArray[np.float32], result: Result, target: Target
) -> None:
    """Write the picture: three views of one cloud, in one scale but for the last."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    view = choose_view(points)
    picks = result.picks.numpy()
    figure = Figure(dpi=140, layout="constrained")
    FigureCanvasAgg(figure)
    whole, centres, group = _panels(figure, points, view)
    _draw_cloud(whole, points, view, faint=False)
    whole.set_title(f"cloud: {len(points)} points")
    _draw_cloud(centres, points, view, faint=True)
    order = np.arange(len(picks))
    # the first picks on top: there are few of them
    shown = centres.scatter(
        points[picks[::-1], view.across],
        points[picks[::-1], view.up],
        c=order[::-1],
        s=_spot(6 * len(picks), 5.0, 40.0),
        cmap="viridis",
        linewidths=0,
        rasterized=True,
    )
    bar = figure.colorbar(shown, ax=centres, shrink=0.8, pad=0.02)
    bar.set_label("order of picking")
    centres.set_title(f"farthest point sampling: {len(picks)} centres")
    index = choose_group(points, picks, result.hits.numpy(), view)
    for axes in (whole, centres):
        _frame(axes, points, view)
        axes.add_patch(_box(points[picks[index]], result.radius, view))
    _draw_group(group, points, result, view, index)
    figure.suptitle(f"{title}   |   {target.describe()}", color=_INK, fontsize=12)
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise DemoError(f"--plot: {path} cannot be written: {error.strerror or error}") from error


def _panels(figure: Figure, points: NDArray[np.float32], view: View) -> tuple[Axes, Axes, Axes]:
    """Three panels in a row; for wide clouds two of them one below the other."""
    sides = np.maximum(np.ptp(points, axis=0), 1e-30)
    tall = float(sides[view.up] / sides[view.across])
    if tall > 0.62:
        figure.set_size_inches(3.3 * _PANEL, _PANEL * min(max(tall, 0.8), 1.5) + 1.1)
        whole, centres, group = figure.subplots(1, 3)
        return whole, centres, group
    figure.set_size_inches(2.9 * _PANEL, 3 * _PANEL * max(tall, 0.3) + 2.0)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.7, 1.2))
    whole, centres = (figure.add_subplot(grid[row, 0]) for row in range(2))
    return whole, centres, figure.add_subplot(grid[:, 1])


def _spot(count: int, smallest: float, largest: float) -> float:
    """Marker area, in square points: spots nearly cover a panel that they fill evenly."""
    return float(np.clip(0.5 * (72 * _PANEL) ** 2 / max(count, 1), smallest, largest))


def _draw_cloud(axes: Axes, points: NDArray[np.float32], view: View, *, faint: bool) -> None:
    """Every point in grey, darker the nearer it is."""
    near = view.toward * points[:, view.depth].astype(np.float64)
    order = np.argsort(near, kind="stable")
    side = float(np.ptp(near)) or 1.0
    depth = (near[order] - near.min()) / side
    grey = 0.88 - 0.12 * depth if faint else 0.85 - 0.7 * depth
    axes.scatter(
        points[order, view.across],
        points[order, view.up],
        c=np.repeat(grey[:, None], 3, axis=1),
        s=_spot(len(points), 0.4, 12.0),
        linewidths=0,
        rasterized=True,
    )


def _frame(axes: Axes, points: NDArray[np.float32], view: View) -> None:
    """Equal scales and room around the cloud."""
    axes.set_aspect("equal")
    axes.margins(0.04)
    axes.set_xlabel("xyz"[view.across])
    axes.set_ylabel("xyz"[view.up])
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _box(centre: NDArray[np.float32], radius: float, view: View) -> Any:
    from matplotlib.patches import Rectangle

    half = _ZOOM * radius
    corner = (float(centre[view.across]) - half, float(centre[view.up]) - half)
    return Rectangle(corner, 2 * half, 2 * half, fill=False, edgecolor=_GROUP, linewidth=1.4)


def _draw_group(
    axes: Axes, points: NDArray[np.float32], result: Result, view: View, index: int
) -> None:
    from matplotlib.patches import Circle

    centre = points[int(result.picks[index])]
    where = float(centre[view.across]), float(centre[view.up])
    hits = result.hits[index].numpy()
    hits = hits[(hits >= 0) & (hits < len(points))]
    neighbours = result.neighbours[index].numpy()
    neighbours = neighbours[(neighbours >= 0) & (neighbours < len(points))]
    # only what is near in all three directions, else the far side shines through
    offset = points.astype(np.float64) - centre
    around = points[(np.abs(offset) <= 1.5 * _ZOOM * result.radius).all(axis=1)]

    def dots(some: NDArray[np.float32], **style: Any) -> None:
        axes.scatter(some[:, view.across], some[:, view.up], **style)

    dots(around, color="0.75", s=16, linewidths=0, label="cloud")
    dots(points[hits], color=_GROUP, s=30, linewidths=0, label=f"ball query: {len(hits)} points")
    dots(
        points[neighbours],
        facecolors="none",
        edgecolors=_NEIGHBOUR,
        s=70,
        linewidths=1.2,
        label=f"kNN: {len(neighbours)} points",
    )
    dots(centre[None], color="black", marker="+", s=110, linewidths=2, label="centre")
    axes.add_patch(
        Circle(where, result.radius, fill=False, edgecolor=_GROUP, linestyle="--", linewidth=1.2)
    )
    _frame(axes, points, view)
    half = _ZOOM * result.radius
    axes.set_xlim(where[0] - half, where[0] + half)
    axes.set_ylim(where[1] - half, where[1] + half)
    axes.set_title(
        f"one group, seen along {'xyz'[view.depth]}\n"
        f"radius {result.radius:g}, at most {result.hits.shape[1]} points"
    )
    axes.legend(loc="upper right", fontsize=8, framealpha=0.9)
