"""How repositories call pointnet2_ops and knn_cuda: code of our own in the shape of theirs.

Each class or function is what such a repository has, written from the survey of their call sites;
the tests compare it with plain torch.
"""

import pytest
import torch
from torch import nn

import pointnet2_ops.pointnet2_utils as pnt2
from knn_cuda import KNN
from pointnet2_ops import _ext, pointnet2_utils
from pointnet2_ops.pointnet2_modules import PointnetFPModule, PointnetSAModule
from pointnet2_ops.pointnet2_utils import (
    ball_query,
    furthest_point_sample,
    gather_operation,
    grouping_operation,
    three_interpolate,
    three_nn,
)
from pointops_testing import assert_same_bits


def _rows(points, index):
    """Plain torch: points [B, N, C] at index [B, ...]."""
    return torch.stack([cloud[picked.long()] for cloud, picked in zip(points, index, strict=True)])


def _squares(a, b):
    return (a.cpu().double()[:, :, None] - b.cpu().double()[:, None]).square().sum(3)


def _sample(data, number):
    """Point-BERT, Point-MAE and their family."""
    idx = pointnet2_utils.furthest_point_sample(data, number)
    columns = data.transpose(1, 2).contiguous()
    return pointnet2_utils.gather_operation(columns, idx).transpose(1, 2).contiguous()


class PointMaeGroup(nn.Module):
    """Point-MAE, Point-M2AE, PointGPT, PointMamba, M3DM, MulSen-AD: patches around samples."""

    def __init__(self, num_group, group_size):
        super().__init__()
        self.num_group, self.group_size = num_group, group_size
        self.knn = KNN(k=group_size, transpose_mode=True)

    def forward(self, xyz):
        batch, points, _ = xyz.shape
        center = _sample(xyz.contiguous(), self.num_group)
        _, idx = self.knn(xyz, center)
        assert idx.size(1) == self.num_group
        assert idx.size(2) == self.group_size
        base = torch.arange(0, batch, device=xyz.device).view(-1, 1, 1) * points
        flat = (idx + base).view(-1)
        patches = xyz.reshape(batch * points, -1)[flat, :]
        patches = patches.view(batch, self.num_group, self.group_size, 3).contiguous()
        return patches - center.unsqueeze(2), center, idx


@pytest.mark.parametrize("transposed", [False, True])
def test_point_mae_group(device, scan, transposed):
    if transposed:  # MulSen-AD hands a transposed view over
        scan = scan.transpose(1, 2).contiguous().transpose(1, 2)
    patches, center, idx = PointMaeGroup(24, 32)(scan)
    assert patches.shape == (2, 24, 32, 3)
    assert idx.dtype == torch.int64
    assert idx.device.type == patches.device.type == device
    assert_same_bits(patches, _rows(scan, idx) - center.unsqueeze(2))
    order = _squares(center, scan).sort(stable=True).indices[:, :, :32]
    assert_same_bits(idx, order)  # no ties in this cloud
    # a sampled centre is the first of its own patch
    assert_same_bits(patches[:, :, 0], torch.zeros(2, 24, 3))


def test_point_mae_group_trains(scan):
    points = scan.clone().requires_grad_()
    patches, center, _ = PointMaeGroup(8, 16)(points)
    (patches.square().sum() + center.sum()).backward()
    assert bool(torch.isfinite(points.grad).all())
    assert bool((points.grad != 0).any())


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_samples_as_indices_of_torch(scan, index_dtype):
    """pointMLP, PCT, PointConT, where2act: `.long()`, then indexing by torch."""
    idx = furthest_point_sample(scan, 32)
    picked = _rows(scan, idx.long())
    columns = scan.transpose(1, 2).contiguous()
    assert_same_bits(gather_operation(columns, idx.to(index_dtype)).transpose(1, 2), picked)


def _square_distance(a, b):
    return (a[:, :, None] - b[:, None]).square().sum(3)


def _query_knn(nsample, xyz, new_xyz):
    """SnowflakeNet, SeedFormer, PoinTr: torch's own sort, turned to int32 for the operator."""
    return _square_distance(new_xyz, xyz).argsort(dim=2)[:, :, :nsample].int()


@pytest.mark.parametrize("radius", [None, 0.6])
def test_snowflake_grouping(device, scan, radius):
    """sample_and_group, by kNN or by ball query, with features."""
    columns = scan.transpose(1, 2).contiguous()
    features = torch.randn(2, 7, 500, generator=torch.Generator().manual_seed(1)).to(device)
    features.requires_grad_()
    new_xyz = gather_operation(columns, furthest_point_sample(scan, 20)).permute(0, 2, 1)
    new_xyz = new_xyz.contiguous()
    idx = _query_knn(16, scan, new_xyz) if radius is None else ball_query(radius, 16, scan, new_xyz)
    grouped = grouping_operation(columns, idx) - new_xyz.permute(0, 2, 1).unsqueeze(3)
    both = torch.cat((grouped, grouping_operation(features, idx)), dim=1)
    assert both.shape == (2, 10, 20, 16)
    plain = _rows(scan, idx) - new_xyz.unsqueeze(2)
    assert_same_bits(grouped, plain.permute(0, 3, 1, 2))
    wanted = _rows(features.detach().transpose(1, 2), idx).permute(0, 3, 1, 2)
    assert_same_bits(both[:, 3:], wanted)
    both[:, 3:].max(dim=3).values.sum().backward()
    assert features.grad.sum().item() == 2 * 7 * 20
    if radius is not None:
        inside = _squares(new_xyz, scan) < torch.tensor(radius).float().double() ** 2
        first = [row.nonzero().flatten()[:16] for row in inside.flatten(0, 1)]
        for got, hits in zip(idx.flatten(0, 1).cpu(), first, strict=True):
            assert got[: len(hits)].tolist() == hits.tolist()
            assert set(got[len(hits) :].tolist()) <= {int(hits[0])}


def test_upsampling_of_pointr(device, scan):
    """PoinTr, SnowflakeNet, SeedFormer: features by inverse distance, channels last outside."""
    sparse = _sample(scan, 40)
    values = torch.randn(2, 40, 6, generator=torch.Generator().manual_seed(1)).to(device)
    dist, idx = three_nn(scan.contiguous(), sparse.contiguous())
    inverse = 1.0 / (dist + 1e-8)
    weight = inverse / torch.sum(inverse, dim=2, keepdim=True)
    out = three_interpolate(values.transpose(-1, -2).contiguous(), idx, weight)
    out = out.transpose(-1, -2).contiguous()
    squares, order = _squares(scan, sparse).sort(stable=True)
    assert_same_bits(idx, order[:, :, :3].int())
    inverse = 1.0 / (squares[:, :, :3].sqrt() + 1e-8)
    weight = inverse / inverse.sum(dim=2, keepdim=True)
    wanted = (_rows(values.cpu().double(), order[:, :, :3]) * weight.unsqueeze(3)).sum(2)
    torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-4, atol=1e-4)  # float32


def _spin_patches(points, centers, radius, nsample):
    """SpinNet, BUFFER, BUFFER-X: the padding of ball query, turned into a mask."""
    idx = pnt2.ball_query(radius, nsample, points, centers)
    padded = idx == idx[..., :1]
    padded[..., 0] = False
    alone = (idx[..., :1] == 0).squeeze(-1)  # nobody found, or point 0 itself
    groups = pnt2.grouping_operation(points.transpose(1, 2).contiguous(), idx)
    groups = groups.permute(0, 2, 3, 1)
    return torch.where(padded.unsqueeze(3), centers.unsqueeze(2), groups), padded, alone


def test_spinnet_mask_from_padding(device, scan):
    slots = 24
    far = torch.full((2, 1, 3), 50.0, device=device)
    centers = torch.cat((scan[:, 5:25], far, scan[:, :1]), dim=1).contiguous()
    groups, padded, alone = _spin_patches(scan, centers, 0.4, slots)
    inside = _squares(centers, scan) < torch.tensor(0.4).double() ** 2
    count = inside.sum(2).clamp(max=slots)
    assert 0 < int((count < slots).sum()) < count.numel()  # some are full, some are padded
    wanted = torch.arange(slots).expand(2, 22, slots) >= count.clamp(min=1).unsqueeze(2)
    assert_same_bits(padded, wanted)
    assert bool(alone[:, 20].all())  # the far centre found nobody
    assert_same_bits(alone, (count == 0) | inside[:, :, 0])
    at_centre = centers.unsqueeze(2).expand_as(groups)
    assert_same_bits(groups[padded], at_centre[padded])
    reach = (groups[:, :20] - at_centre[:, :20]).square().sum(3)
    assert bool((reach < 0.17).all())


def _mutual_matches(source, target):
    """BUFFER: nearest descriptors both ways, one cloud a batch, distance as a threshold."""
    search = KNN(k=1, transpose_mode=True)
    distance, forth = search(target[None], source[None])
    _, back = search(source[None], target[None])
    forth, back = forth[0, :, 0], back[0, :, 0]
    mutual = back[forth] == torch.arange(len(source), device=source.device)
    return forth, mutual, distance[0, :, 0]


def test_buffer_descriptors(device):
    rng = torch.Generator().manual_seed(0)
    target = nn.functional.normalize(torch.randn(90, 32, generator=rng), dim=1)
    source = target[torch.randperm(90, generator=rng)[:60]]
    source = nn.functional.normalize(source + 0.01 * torch.randn(60, 32, generator=rng), dim=1)
    forth, mutual, distance = _mutual_matches(source.to(device), target.to(device))
    squares = _squares(source[None], target[None])[0]
    assert_same_bits(forth, squares.argmin(dim=1))
    assert_same_bits(mutual, squares.argmin(dim=0)[forth.cpu()] == torch.arange(60))
    assert bool(mutual.all())
    wanted = squares.min(dim=1).values.sqrt()
    torch.testing.assert_close(distance.cpu().double(), wanted, rtol=1e-5, atol=1e-6)  # float32
    assert bool((distance < 0.2).all())


GLOBAL_KNN = KNN(k=4, transpose_mode=False)


def test_columns_and_a_module_made_at_import(device, scan):
    """Point-BERT, ACT, AnchorFormer, ULIP (graph features of a DGCNN): (B, 3, N), idx (B, k, M)."""
    coordinates, features = scan[:, :60].transpose(1, 2).contiguous(), scan.transpose(1, 2)
    centers = coordinates[:, :, :20].contiguous()
    with torch.no_grad():
        _, idx = GLOBAL_KNN(coordinates, centers)
        assert idx.shape[1] == 4
        base = torch.arange(2, device=scan.device).view(-1, 1, 1) * 60
        flat = (idx + base).view(-1)
    rows = features[:, :, :60].transpose(2, 1).reshape(2 * 60, 3)[flat]
    rows = rows.view(2, 4, 20, 3).permute(0, 3, 2, 1).contiguous()
    assert rows.shape == (2, 3, 20, 4)
    assert device == rows.device.type
    wanted = _squares(centers.transpose(1, 2), scan[:, :60]).sort(stable=True).indices[:, :, :4]
    assert_same_bits(rows, _rows(scan, wanted.to(device)).permute(0, 3, 1, 2))


class OwnGrouping(torch.autograd.Function):
    """M2T2, votenet, 3detr: Functions of their own on the low-level calls."""

    @staticmethod
    def forward(ctx, features, idx):
        ctx.for_backwards = (idx, features.size(2))
        return _ext.group_points(features, idx)

    @staticmethod
    def backward(ctx, grad_out):
        idx, size = ctx.for_backwards
        return _ext.group_points_grad(grad_out.contiguous(), idx, size), None


def test_own_functions_on_the_extension(device, scan):
    idx = _ext.furthest_point_sampling(scan, 30)
    columns = scan.transpose(1, 2).contiguous()
    centers = _ext.gather_points(columns, idx).transpose(1, 2).contiguous()
    neighbours = _ext.ball_query(centers, scan, 0.5, 8)
    assert_same_bits(neighbours, ball_query(0.5, 8, scan, centers))
    features = torch.randn(2, 4, 500, generator=torch.Generator().manual_seed(1)).to(device)
    grads = []
    for function in (OwnGrouping.apply, grouping_operation):
        leaf = features.clone().requires_grad_()
        function(leaf, neighbours).square().sum().backward()
        grads.append(leaf.grad)
    assert_same_bits(grads[0], grads[1])
    squared, near = _ext.three_nn(scan, centers)
    distance, same = three_nn(scan, centers)
    assert_same_bits(near, same)
    torch.testing.assert_close(torch.sqrt(squared), distance)


class Segmenter(nn.Module):
    """motion-policy-networks, where2act: modules by keyword, a group of all, propagation."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList()
        self.down.append(
            PointnetSAModule(npoint=32, radius=0.6, nsample=16, mlp=[1, 8, 8], bn=False)
        )
        self.down.append(PointnetSAModule(mlp=[8, 16], bn=False))
        self.up = PointnetFPModule(mlp=[8 + 1, 4])

    def forward(self, cloud):
        xyz = cloud[..., 0:3].contiguous()
        features = cloud[..., 3:].transpose(1, 2).contiguous()
        few, low = self.down[0](xyz, features)
        none, whole = self.down[1](few, low)
        assert none is None
        return self.up(xyz, few, features, low), whole.squeeze(-1)


def test_modules_by_keyword(device, scan):
    torch.manual_seed(0)
    model = Segmenter().to(device)
    cloud = torch.cat((scan, torch.ones_like(scan[..., :1])), dim=2)
    dense, whole = model(cloud)
    assert dense.shape == (2, 4, 500)
    assert whole.shape == (2, 16)
    (dense.sum() + whole.sum()).backward()
    assert all(
        p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in model.parameters()
    )
