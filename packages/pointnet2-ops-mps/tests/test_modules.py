"""Set abstraction and feature propagation: groups, layers, checkpoints, training."""

import copy
import pickle

import pytest
import torch
from torch import nn

import mps_emulator
from pointnet2_ops import pointnet2_modules as pm
from pointnet2_ops import pointnet2_utils as pu
from pointops_testing import assert_same_bits


def test_query_and_group(device):
    xyz = torch.tensor([[[0.0, 0, 1], [0, 0, 2], [0, 0, 9]]], device=device)
    features = torch.tensor([[[1.0, 2, 3]]], device=device)
    groups = pu.QueryAndGroup(1.5, 2)(xyz, xyz[:, 1:2].contiguous(), features)
    assert groups.tolist() == [[[[0.0, 0.0]], [[0.0, 0.0]], [[-1.0, 0.0]], [[1.0, 2.0]]]]
    relative = pu.QueryAndGroup(1.5, 2)(xyz, xyz[:, 1:2].contiguous())
    assert_same_bits(relative, groups[:, :3])
    alone = pu.QueryAndGroup(1.5, 2, use_xyz=False)(xyz, xyz[:, 1:2].contiguous(), features)
    assert_same_bits(alone, groups[:, 3:])
    with pytest.raises(AssertionError, match="use_xyz"):
        pu.QueryAndGroup(1.5, 2, use_xyz=False)(xyz, xyz)


def test_group_all(device):
    xyz = torch.tensor([[[0.0, 0, 1], [0, 0, 2], [0, 0, 9]]], device=device)
    features = torch.tensor([[[1.0, 2, 3]]], device=device)
    groups = pu.GroupAll()(xyz, None, features)
    assert groups.tolist() == [[[[0.0] * 3], [[0.0] * 3], [[1.0, 2, 9]], [[1.0, 2, 3]]]]
    assert_same_bits(pu.GroupAll()(xyz, None), groups[:, :3])
    assert_same_bits(pu.GroupAll(use_xyz=False)(xyz, None, features), groups[:, 3:])


@pytest.mark.parametrize("bn", [True, False])
def test_shared_mlp(bn):
    mlp = pm.build_shared_mlp([4, 8, 16], bn)
    kinds = [nn.Conv2d, nn.BatchNorm2d, nn.ReLU] if bn else [nn.Conv2d, nn.ReLU]
    assert [type(layer) for layer in mlp] == kinds * 2
    assert (mlp[0].bias is None) is bn
    assert mlp[0].weight.shape == (8, 4, 1, 1)
    assert mlp[-1].inplace


def _keys(module):
    return {name.rsplit(".", 1)[0] for name in module.state_dict()}


def test_names_of_checkpoints():
    msg = pm.PointnetSAModuleMSG(8, [0.5, 1.0], [4, 8], [[3, 8, 16], [3, 8]])
    assert _keys(msg) == {"mlps.0.0", "mlps.0.1", "mlps.0.3", "mlps.0.4", "mlps.1.0", "mlps.1.1"}
    assert set(msg.mlps[0][1].state_dict()) == {
        *("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    }
    plain = pm.PointnetSAModule(mlp=[3, 8, 16, 32], npoint=8, radius=0.5, nsample=4, bn=False)
    names = {f"mlps.0.{n}.{kind}" for n in (0, 2, 4) for kind in ("weight", "bias")}
    assert set(plain.state_dict()) == names
    assert _keys(pm.PointnetFPModule([9, 4, 4])) == {"mlp.0", "mlp.1", "mlp.3", "mlp.4"}
    shapes = {name: tuple(value.shape) for name, value in plain.state_dict().items()}
    assert shapes["mlps.0.0.weight"] == (8, 6, 1, 1)  # three coordinates more


def test_channel_lists_grow_in_place_as_there():
    mlps = [[3, 8], [3, 16]]
    pm.PointnetSAModuleMSG(8, [0.5, 1.0], [4, 8], mlps)
    assert mlps == [[6, 8], [6, 16]]
    mlp = [3, 8]
    pm.PointnetSAModule(mlp, npoint=8, radius=0.5, nsample=4, use_xyz=False)
    assert mlp == [3, 8]
    with pytest.raises(AssertionError, match="2, 1 and 2"):
        pm.PointnetSAModuleMSG(8, [0.5, 1.0], [4], [[3, 8], [3, 8]])


def test_set_abstraction(device):
    torch.manual_seed(0)
    xyz, features = torch.randn(2, 40, 3) + 3, torch.randn(2, 5, 40)
    module = pm.PointnetSAModuleMSG(8, [0.7, 1.5], [4, 8], [[5, 6], [5, 7]]).to(device).eval()
    xyz, features = xyz.to(device), features.to(device)
    centres, pooled = module(xyz, features)
    assert centres.is_contiguous()
    idx = pu.furthest_point_sample(xyz, 8).long()
    assert_same_bits(centres, xyz.gather(1, idx.unsqueeze(2).expand(2, 8, 3)))
    assert pooled.shape == (2, 13, 8)
    groups = module.mlps[1](pu.QueryAndGroup(1.5, 8)(xyz, centres, features))
    assert_same_bits(pooled[:, 6:], groups.max(dim=3).values)
    centres, pooled = pm.PointnetSAModule(mlp=[5, 6]).to(device)(xyz, features)
    assert centres is None
    assert pooled.shape == (2, 6, 1)
    centres, pooled = pm.PointnetSAModule([0, 6], 8, 0.7, 4).to(device)(xyz, None)
    assert pooled.shape == (2, 6, 8)


def test_feature_propagation(device):
    torch.manual_seed(0)
    module = pm.PointnetFPModule([7, 6]).to(device).eval()
    unknown, known = torch.randn(2, 12, 3).to(device), torch.randn(2, 5, 3).to(device)
    own, sparse = torch.randn(2, 3, 12).to(device), torch.randn(2, 4, 5).to(device)
    out = module(unknown, known, own, sparse)
    distance, idx = pu.three_nn(unknown, known)
    inverse = 1.0 / (distance + 1e-8)
    weight = inverse / inverse.sum(2, keepdim=True)
    spread = pu.three_interpolate(sparse, idx, weight)
    wanted = module.mlp(torch.cat((spread, own), dim=1).unsqueeze(-1)).squeeze(-1)
    assert_same_bits(out, wanted)
    assert pm.PointnetFPModule([4, 6]).to(device)(unknown, known, None, sparse).shape == (2, 6, 12)
    # one known point: the two that are missing have no weight
    one = module(unknown, known[:, :1].contiguous(), own, sparse[:, :, :1].contiguous())
    same = module(unknown, None, own, sparse[:, :, :1].contiguous())
    torch.testing.assert_close(one, same)


class Network(nn.Module):
    """Two scales down, one group of all, and back up to every point."""

    def __init__(self):
        super().__init__()
        self.down = pm.PointnetSAModuleMSG(16, [0.6, 1.2], [4, 8], [[2, 8, 8], [2, 8]])
        self.top = pm.PointnetSAModule(mlp=[16, 16], npoint=4, radius=2.0, nsample=8)
        self.up = nn.ModuleList(
            [pm.PointnetFPModule([16 + 16, 16]), pm.PointnetFPModule([16 + 2, 8])]
        )
        self.head = nn.Conv1d(8, 3, 1)

    def forward(self, xyz, features):
        centres, low = self.down(xyz, features)
        few, top = self.top(centres, low)
        low = self.up[0](centres, few, low, top)
        return self.head(self.up[1](xyz, centres, features, low))


def _train(device, steps=4):
    torch.manual_seed(0)
    xyz, features = torch.randn(2, 64, 3) + 2, torch.randn(2, 2, 64)
    labels = (xyz[:, :, 0] > 2).long() + (xyz[:, :, 1] > 2).long()
    network = Network().to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(
            network(xyz.to(device), features.to(device)), labels.to(device)
        )
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return network, losses


def test_training(device):
    network, losses = _train(device)
    assert losses[-1] < losses[0]
    for parameter in network.parameters():
        assert bool(torch.isfinite(parameter.grad).all())
    state = {name: value.cpu() for name, value in network.state_dict().items()}
    assert {"down.mlps.0.3.weight", "up.1.mlp.0.weight", "top.mlps.0.1.running_var"} <= set(state)
    fresh = Network()
    fresh.load_state_dict(state, strict=True)
    xyz, features = torch.randn(1, 64, 3) + 2, torch.randn(1, 2, 64)
    wanted = network.eval()(xyz.to(device), features.to(device)).cpu()
    torch.testing.assert_close(fresh.eval()(xyz, features), wanted)


def test_training_on_both_devices_has_equal_losses():
    """Ours add in one order everywhere; on a Mac torch's own layers round in another one."""
    tolerance = 1e-6 if mps_emulator.is_installed() else 1e-3
    torch.testing.assert_close(_train("mps")[1], _train("cpu")[1], rtol=tolerance, atol=0)


def test_autocast(device):
    torch.manual_seed(0)
    dtype = torch.bfloat16 if device == "cpu" else torch.float16
    network = Network().to(device)
    xyz, features = (torch.randn(2, 64, 3) + 2).to(device), torch.randn(2, 2, 64).to(device)
    wanted = network(xyz, features)
    with torch.autocast(device, dtype=dtype):
        out = network(xyz, features)
        loss = out.float().square().mean()
    loss.backward()
    assert out.dtype == dtype
    assert bool(torch.isfinite(loss))
    # half precision has 8 or 11 bits, and batch norm of 8 points spreads their rounding
    assert (out.float() - wanted).abs().mean() < 0.1 * wanted.abs().mean()


# torch below 2.14 warns of what its compiler does itself with any autograd Function
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compile_fullgraph(device):
    torch.manual_seed(0)
    network = Network().to(device).eval()
    xyz, features = (torch.randn(2, 64, 3) + 2).to(device), torch.randn(2, 2, 64).to(device)
    compiled = torch.compile(network, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(xyz, features), network(xyz, features))


def test_copies():
    network = Network().eval()
    xyz, features = torch.randn(1, 64, 3) + 2, torch.randn(1, 2, 64)
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert_same_bits(other(xyz, features), network(xyz, features))
    state = vars(pu.QueryAndGroup(0.5, 4))
    assert {"radius": 0.5, "nsample": 4, "use_xyz": True}.items() <= state.items()
