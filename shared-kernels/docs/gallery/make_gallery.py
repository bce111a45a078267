"""Draws one picture per operator, from what the operators return.

uv run python shared-kernels/docs/gallery/make_gallery.py [--out FOLDER] [--only NAME]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from PIL import Image
from torch import Tensor

from mps_pointops import (
    ball_query,
    flat,
    furthest_point_sample,
    group_points,
    knn,
    three_interpolate,
    three_nn,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "integration-tests" / "data"
RED, BLUE, GREY, INK = "#d1495b", "#00798c", "0.78", "#30343a"
PANEL = (4.6, 3.3)  # inches


def dragon() -> Tensor:
    """The side of the dragon that faces the viewer, [N, 3], in centimetres."""
    with np.load(DATA / "dragon.npz") as arrays:
        points = torch.from_numpy(arrays["points_5k"]) * 100
    return points[points[:, 2] > points[:, 2].median()]


def tile() -> Tensor:
    """Every sixteenth point of the LiDAR tile's left part, [N, 3], in units of the file."""
    with np.load(DATA / "autzen_lidar.npz") as arrays:
        points = torch.from_numpy(arrays["points"][::16])
    return points[points[:, 0] < 700]


def plane(number: int, seed: int) -> Tensor:
    """Random points [N, 2] that keep their distance, so that drawings of graphs are clear."""
    many = torch.rand(number * 8, 2, generator=torch.Generator().manual_seed(seed))
    many = many * torch.tensor([1.4, 1.0])
    return many[flat.fps(many, ratio=number / len(many), random_start=False)]


def near_graph(points: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Edges between every point and its k nearest, in both directions."""
    index = knn(points[None], points[None], k + 1)[1][0, :, 1:]
    row = torch.arange(len(points)).repeat_interleave(k)
    both = torch.stack([torch.cat([row, index.flatten()]), torch.cat([index.flatten(), row])])
    row, col = both.unique(dim=1)
    return row, col


def dots(axes: Axes, points: Tensor, colour: object = GREY, size: float = 5.0, **more: object):
    """A scatter of the first two coordinates."""
    return axes.scatter(points[:, 0], points[:, 1], c=colour, s=size, linewidths=0, **more)


def lines(axes: Axes, start: Tensor, end: Tensor, **style: object) -> None:
    """Segments from every row of `start` to that of `end`."""
    ends = torch.stack([start[:, :2], end[:, :2]], dim=1).numpy()
    axes.add_collection(LineCollection(ends, **style))


def fps(axes: Axes) -> None:
    """Every pick is the point farthest from all picks before it."""
    points = dragon()
    picks = furthest_point_sample(points[None], 160)[0].flip(0)  # the first on top
    dots(axes, points)
    order = torch.arange(len(picks)).flip(0)
    shown = dots(axes, points[picks], order, 22.0, cmap="viridis")
    axes.figure.colorbar(shown, ax=axes, shrink=0.8, pad=0.02, label="order of picking")


def neighbours(axes: Axes) -> None:
    """The k points nearest to each query, however far."""
    points = dragon()
    queries = points[furthest_point_sample(points[None], 9)[0]]
    index = knn(queries[None], points[None], 48)[1][0]
    dots(axes, points)
    for query, row in zip(queries, index, strict=True):
        some = points[row]
        lines(axes, query.expand_as(some), some, colors=BLUE, linewidths=0.4)
        dots(axes, some, BLUE, 7.0)
    dots(axes, queries, "black", 16.0)


def balls(axes: Axes) -> None:
    """The points closer than a radius, the first K of them in input order."""
    points = dragon()
    queries = points[furthest_point_sample(points[None], 9)[0]]
    radius = 1.5
    index = ball_query(queries[None], points[None], radius, 64)[1][0]
    dots(axes, points)
    for query, row in zip(queries, index, strict=True):
        dots(axes, points[row[row >= 0]], RED, 7.0)
        axes.add_patch(Circle(query[:2].tolist(), radius, fill=False, edgecolor=RED, linewidth=1))
    dots(axes, queries, "black", 16.0)


def three(axes: Axes) -> None:
    """A new point with its three nearest known points and its weights by distance."""
    known = plane(18, 1)
    unknown = torch.tensor([[0.35, 0.3], [0.65, 0.85], [1.2, 0.3]])
    flat_known, flat_unknown = (torch.nn.functional.pad(x, (0, 1)) for x in (known, unknown))
    distance, index = (x[0] for x in three_nn(flat_unknown[None], flat_known[None]))
    weight = 1 / distance
    weight = weight / weight.sum(dim=1, keepdim=True)
    dots(axes, known, GREY, 30.0)
    for point, row, share in zip(unknown, index, weight, strict=True):
        dots(axes, known[row.long()], BLUE, 40.0)
        for other, part in zip(known[row.long()], share.tolist(), strict=True):
            lines(axes, point[None], other[None], colors=BLUE, linewidths=1 + 5 * part)
            place = {"xytext": (6, 4), "textcoords": "offset points"}
            axes.annotate(f"{part:.2f}", other.tolist(), fontsize=8, color=INK, **place)
    dots(axes, unknown, RED, 50.0, zorder=3)


def interpolate(axes: Axes) -> None:
    """Values at 40 samples, carried to all points by their three nearest."""
    points = dragon()
    known = points[furthest_point_sample(points[None], 40)[0]]
    value = (known[:, 0] * 0.9).sin() + (known[:, 1] * 0.7).cos()
    distance, index = three_nn(points[None], known[None])
    weight = 1 / (distance + 1e-8)
    weight = weight / weight.sum(dim=2, keepdim=True)
    carried = three_interpolate(value[None, None], index, weight)[0, 0]
    scale = {"cmap": "viridis", "vmin": float(value.min()), "vmax": float(value.max())}
    dots(axes, points, carried, 6.0, **scale)
    axes.scatter(known[:, 0], known[:, 1], c=value, s=36, edgecolors="black", **scale)


def groups(axes: Axes) -> None:
    """Patches gathered around centres; each is drawn moved away from the middle."""
    points = dragon()
    picks = furthest_point_sample(points[None], 14)[0]
    index = knn(points[picks][None], points[None], 120)[1]
    columns = points.t().contiguous()[None]
    patches = group_points(columns, index)[0].permute(1, 2, 0)  # [G, S, 3]
    away = 0.5 * (points[picks] - points.mean(dim=0))
    for number, (patch, move) in enumerate(zip(patches, away, strict=True)):
        dots(axes, patch + move, f"C{number % 10}", 5.0)


def grid(axes: Axes) -> None:
    """The cell of a grid that each point lies in."""
    points = tile()[:, :2].contiguous()
    size = torch.tensor([100.0, 100.0])
    cell = flat.grid_cluster(points, size, start=torch.zeros(2))
    mixed = (cell * 7) % 10
    dots(axes, points, mixed, 3.0, cmap="tab10")
    for axis, draw in ((0, axes.axvline), (1, axes.axhline)):
        for place in np.arange(0, float(points[:, axis].max()), 100):
            draw(place, color="white", linewidth=0.8)


def graclus(axes: Axes) -> None:
    """Vertices matched in pairs along the edges of a graph."""
    points = plane(110, 3)
    row, col = near_graph(points, 4)
    weight = 1 / (points[row] - points[col]).norm(dim=1)
    torch.manual_seed(0)
    cluster = flat.graclus_cluster(row, col, weight, len(points))
    inside = (cluster[row] == cluster[col]) & (row < col)
    lines(axes, points[row], points[col], colors=GREY, linewidths=0.5)
    lines(axes, points[row[inside]], points[col[inside]], colors=RED, linewidths=3.0)
    alone = torch.bincount(cluster, minlength=len(points))[cluster] == 1
    dots(axes, points, ["black" if one else RED for one in alone.tolist()], 22.0, zorder=3)


def nearest(axes: Axes) -> None:
    """The closest of a few points, for every point."""
    points = dragon()
    few = points[furthest_point_sample(points[None], 20)[0]]
    owner = flat.nearest(points, few)
    dots(axes, points, owner % 10, 6.0, cmap="tab10")
    dots(axes, few, "black", 24.0)


def walks(axes: Axes) -> None:
    """Three walks from one vertex along the edges of a graph."""
    points = plane(150, 5)
    row, col = near_graph(points, 4)
    begin = int((points - points.mean(dim=0)).norm(dim=1).argmin())
    torch.manual_seed(2)
    start = torch.full((3,), begin)
    paths = flat.random_walk(row, col, start, walk_length=16, p=4.0, q=0.5)
    lines(axes, points[row], points[col], colors=GREY, linewidths=0.5)
    dots(axes, points, GREY, 10.0)
    for path, colour in zip(paths, (RED, BLUE, "#edae49"), strict=True):
        lines(axes, points[path[:-1]], points[path[1:]], colors=colour, linewidths=2.4)
        dots(axes, points[path[-1:]], colour, 50.0, zorder=3)
    dots(axes, points[begin][None], "black", 50.0, zorder=3)


PICTURES: dict[str, Callable[[Axes], None]] = {
    "fps": fps,
    "knn": neighbours,
    "ball_query": balls,
    "gather": groups,
    "three_nn": three,
    "interpolate": interpolate,
    "grid_cluster": grid,
    "graclus_cluster": graclus,
    "nearest": nearest,
    "random_walk": walks,
}


def draw(name: str, folder: Path) -> Path:
    """Writes the picture of a room as .png of few colours; the same bytes on every run."""
    figure = Figure(figsize=PANEL, dpi=110, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    PICTURES[name](axes)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.set_axis_off()
    canvas.draw()
    path = folder / f"{name}.png"
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    picture.quantize(48).save(path, optimize=True)
    return path


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--only", choices=list(PICTURES), action="append")
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.only or PICTURES:
        path = draw(name, chosen.out)
        print(f"{path.name}: {path.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
