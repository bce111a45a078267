"""Messages name the function that was called and its own arguments, whatever runs below."""

import pytest
import torch

import torch_cluster

POINTS = {
    "fps": ("src",),
    "knn": ("x", "y"),
    "knn_graph": ("x",),
    "radius": ("x", "y"),
    "radius_graph": ("x",),
    "nearest": ("x", "y"),
}
VECTORS = {
    "fps": ("batch",),
    "knn": ("batch_x", "batch_y"),
    "knn_graph": ("batch",),
    "radius": ("batch_x", "batch_y"),
    "radius_graph": ("batch",),
    "nearest": ("batch_x", "batch_y"),
}
# Of every function: arguments that it runs with.
GIVEN = {
    "fps": {"ratio": 0.5, "random_start": False},
    "knn": {"k": 2},
    "knn_graph": {"k": 2},
    "knn_graph loop": {"k": 2, "loop": True},
    "radius": {"r": 1.0},
    "radius_graph": {"r": 1.0},
    "radius_graph loop": {"r": 1.0, "loop": True},
    "nearest": {},
}
CASES = list(GIVEN)


def _arguments(case, device):
    """Right ones, by name."""
    name = case.split()[0]
    x = torch.rand(6, 3, device=device)
    batch = torch.tensor([0, 0, 0, 1, 1, 1], device=device)
    return name, {
        **dict.fromkeys(POINTS[name], x),
        **dict.fromkeys(VECTORS[name], batch),
        **GIVEN[case],
    }


def _refused(name, arguments, changed, kinds, text):
    """The message begins with the function and names the argument, and nothing inside."""
    with pytest.raises(kinds, match=rf"^{name}: .*{text}") as raised:
        getattr(torch_cluster, name)(**{**arguments, **changed})
    message = str(raised.value)
    known = {*POINTS[name], *VECTORS[name]}
    for other in ("flat", "batch_x", "batch_y", "mps_pointops"):
        assert other not in message or other in known, message


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wrong", [None, [[0.0, 1.0, 2.0]], 3, "x"], ids=repr)
def test_points_of_the_wrong_kind(case, device, wrong):
    name, arguments = _arguments(case, device)
    for points in POINTS[name]:
        text = f"{points} must be a torch.Tensor, got {type(wrong).__name__}"
        _refused(name, arguments, {points: wrong}, TypeError, text)


@pytest.mark.parametrize("case", CASES)
def test_points_of_the_wrong_dtype_or_shape(case, device):
    name, arguments = _arguments(case, device)
    x, both = arguments[POINTS[name][0]], POINTS[name]
    for wrong in (x > 0, torch.complex(x, x)):
        _refused(name, arguments, dict.fromkeys(both, wrong), TypeError, f"{both[0]} must be")
    no_axis = dict.fromkeys(both, x[0, 0]), dict.fromkeys(VECTORS[name], None)
    kinds = (ValueError, AssertionError)
    _refused(name, arguments, {**no_axis[0], **no_axis[1]}, kinds, f"{both[0]} must be")
    if len(both) == 2:
        other = {both[1]: x[:, :2]}
        _refused(name, arguments, other, kinds, "dimension")


@pytest.mark.parametrize("case", CASES)
def test_sparse_tensors(case):
    name, arguments = _arguments(case, "cpu")
    for argument in (*POINTS[name], *VECTORS[name]):
        text = rf"{argument} must be a dense \(strided\) tensor, got torch.sparse_coo"
        _refused(name, arguments, {argument: arguments[argument].to_sparse()}, TypeError, text)


@pytest.mark.parametrize("case", CASES)
def test_points_on_two_devices(case, device):
    name, arguments = _arguments(case, device)
    other = "mps" if device == "cpu" else "cpu"
    for changed in (*POINTS[name][1:], *VECTORS[name]):
        moved = {changed: arguments[changed].to(other)}
        _refused(name, arguments, moved, ValueError, "must be on the device of")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wrong", [[0, 0, 0, 1, 1, 1], 3, "batch"], ids=repr)
def test_batch_of_the_wrong_kind(case, device, wrong):
    name, arguments = _arguments(case, device)
    for vector in VECTORS[name]:
        text = f"{vector} must be a torch.Tensor, got {type(wrong).__name__}"
        _refused(name, arguments, {vector: wrong}, TypeError, text)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_batch_of_narrow_integers(case, device, dtype):
    """As the original's searches take them."""
    name, arguments = _arguments(case, device)
    clouds = 100 if dtype == torch.int8 else 200
    batch = torch.arange(2 * clouds) // 2
    points = torch.rand(2 * clouds, 3, generator=torch.Generator().manual_seed(0)).to(device)
    arguments |= dict.fromkeys(POINTS[name], points)
    results = []
    for kind in (torch.int64, dtype):
        vectors = dict.fromkeys(VECTORS[name], batch.to(kind).to(device))
        results.append(getattr(torch_cluster, name)(**{**arguments, **vectors}))
    assert torch.equal(*results)
    if name == "fps":
        each = torch.full((clouds,), 0.5, device=device)
        vectors["ratio"] = each
        assert torch.equal(getattr(torch_cluster, name)(**{**arguments, **vectors}), results[0])


@pytest.mark.parametrize("case", CASES)
def test_batch_of_the_wrong_dtype_or_shape(case, device):
    name, arguments = _arguments(case, device)
    for vector in VECTORS[name]:
        batch = arguments[vector]
        floats = {vector: batch.float()}
        _refused(name, arguments, floats, TypeError, f"{vector} must be int64 or int32")
        kinds = (ValueError, AssertionError)
        for wrong in (batch[:5], batch[:0]):
            _refused(name, arguments, {vector: wrong}, kinds, f"{vector} must")


@pytest.mark.parametrize("case", CASES)
def test_batch_with_wrong_numbers(case, device):
    name, arguments = _arguments(case, device)
    descends = torch.tensor([0, 1, 0, 1, 1, 1], device=device)
    negative = torch.tensor([-1, 0, 0, 1, 1, 1], device=device)
    for vector in VECTORS[name]:
        _refused(name, arguments, {vector: descends}, ValueError, f"{vector} must be sorted")
        text = f"{vector} must be cloud numbers from 0, got -1"
        _refused(name, arguments, {vector: negative}, ValueError, text)
    if name != "nearest":
        text = rf"{VECTORS[name][0]} must be below the number of clouds \(1\), got a cloud 1"
        _refused(name, arguments, {"batch_size": 1}, ValueError, text)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wrong", [2.5, "2", [2], True, torch.tensor(2.5)], ids=repr)
def test_integers_of_the_wrong_kind(case, device, wrong):
    name, arguments = _arguments(case, device)
    integers = {"knn": ["k"], "knn_graph": ["k"], "nearest": []}.get(name, [])
    integers += ["max_num_neighbors"] if name.startswith("radius") else []
    integers += ["batch_size"] if name != "nearest" else []
    for integer in integers:
        text = f"{integer} must be an integer, got {type(wrong).__name__}"
        _refused(name, arguments, {integer: wrong}, TypeError, text)
    for integer in integers:
        text = f"{integer} must be at least 0, got -2"
        _refused(name, arguments, {integer: -2}, ValueError, text)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wrong", ["1", [1.0], True], ids=repr)
def test_numbers_of_the_wrong_kind(case, device, wrong):
    name, arguments = _arguments(case, device)
    for number in {"r", "ratio"} & set(arguments):
        text = f"{number} must be a number, got {type(wrong).__name__}"
        _refused(name, arguments, {number: wrong}, TypeError, text)


@pytest.mark.parametrize("case", ["knn_graph", "knn_graph loop", "radius_graph"])
def test_clouds_without_a_batch(case, device):
    name, arguments = _arguments(case, device)
    changed = {"batch": None, "batch_size": 2}
    _refused(name, arguments, changed, ValueError, "batch_size must be 1 .*give batch too")


@pytest.mark.parametrize(
    ("changed", "kind", "text"),
    [
        ({"ptr": [0, 7]}, ValueError, "ptr must be ascending from 0 to 6"),
        ({"ptr": "06"}, TypeError, "ptr must be a torch.Tensor, got str"),
        ({"ptr": [0, "6"]}, TypeError, "ptr must be a number, got str"),
        ({"ptr": torch.tensor([0.0, 6.0])}, TypeError, "ptr must be int64 or int32"),
        ({"ratio": -1.0}, ValueError, "ratio must be finite and not negative, got -1.0"),
        ({"ratio": torch.tensor([True])}, TypeError, "ratio must be a number or a float"),
        ({"ratio": torch.rand(3)}, ValueError, r"ratio must be of shape \[\] or \["),
    ],
)
def test_fps(device, changed, kind, text):
    name, arguments = _arguments("fps", device)
    if "ratio" in changed:
        arguments["batch_size"] = 2
    _refused(name, arguments, changed, kind, text)


OTHERS = {
    "graclus_cluster": (("row", "col"), ("weight",), ("num_nodes",), ()),
    "grid_cluster": (("pos", "size"), ("start", "end"), (), ()),
    "random_walk": (("row", "col", "start"), (), ("walk_length", "num_nodes"), ("p", "q")),
    "neighbor_sampler": (("start", "rowptr"), (), (), ("size",)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions(name, device):
    tensors, optional, integers, numbers = OTHERS[name]
    if name == "neighbor_sampler":
        device = "cpu"
    row = torch.tensor([0, 1, 1, 2], device=device)
    given = {
        "graclus_cluster": {"row": row, "col": row},
        "grid_cluster": {"pos": row.float().view(4, 1), "size": torch.ones(1, device=device)},
        "random_walk": {"row": row, "col": row, "start": row, "walk_length": 2},
        "neighbor_sampler": {"start": row, "rowptr": torch.tensor([0, 1, 3, 4]), "size": 2},
    }[name]
    call = getattr(torch_cluster, name)
    call(**given)
    wrong = [(argument, "0", "a torch.Tensor") for argument in (*tensors, *optional)]
    wrong += [(argument, 1.5, "an integer") for argument in integers]
    wrong += [(argument, "1", "a number") for argument in numbers]
    for argument, value, kind in wrong:
        text = rf"^{name}: {argument} must be {kind}, got {type(value).__name__}"
        with pytest.raises(TypeError, match=text):
            call(**{**given, argument: value})
    values = {"row": row.float(), "pos": row > 0, "start": row.float()}
    for argument in {"row", "pos", "start"} & set(tensors):
        with pytest.raises((TypeError, ValueError), match=f"^{name}: {argument} must be"):
            call(**{**given, argument: values[argument]})
