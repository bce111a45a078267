"""Small models of the shapes that PyG's users write, random numbers left out."""

import torch
from torch import nn
from torch_geometric.nn import (
    MLP,
    DynamicEdgeConv,
    GravNetConv,
    PointNetConv,
    PointTransformerConv,
    XConv,
    fps,
    global_max_pool,
    global_mean_pool,
    knn,
    knn_graph,
    knn_interpolate,
    radius,
)
from torch_geometric.utils import scatter


class SAModule(nn.Module):
    """Set abstraction: farthest points, balls around them, a PointNet in each ball."""

    def __init__(self, ratio, r, widths):
        super().__init__()
        self.ratio, self.r = ratio, r
        self.conv = PointNetConv(MLP(widths), add_self_loops=False)

    def forward(self, x, pos, batch):
        idx = fps(pos, batch, ratio=self.ratio, random_start=False)
        center, point = radius(pos, pos[idx], self.r, batch, batch[idx], max_num_neighbors=12)
        edges = torch.stack([point, center])
        x = self.conv((x, None if x is None else x[idx]), (pos, pos[idx]), edges)
        return x, pos[idx], batch[idx]


class FPModule(nn.Module):
    """Feature propagation: interpolated from the coarse points, joined with the fine ones."""

    def __init__(self, k, widths):
        super().__init__()
        self.k, self.mlp = k, MLP(widths)

    def forward(self, coarse, fine):
        x, pos, batch = coarse
        x_fine, pos_fine, batch_fine = fine
        x = knn_interpolate(x, pos, pos_fine, batch, batch_fine, k=self.k)
        if x_fine is not None:
            x = torch.cat([x, x_fine], dim=1)
        return self.mlp(x), pos_fine, batch_fine


class PointNet2(nn.Module):
    """Segmentation: two levels down, a global feature, two levels up."""

    def __init__(self, channels=4, classes=5):
        super().__init__()
        self.sa1 = SAModule(0.5, 0.3, [channels + 3, 16, 16])
        self.sa2 = SAModule(0.25, 0.6, [16 + 3, 24, 24])
        self.lift = MLP([24 + 3, 32])
        self.fp2 = FPModule(3, [24 + 32 + 16, 24])
        self.fp1 = FPModule(3, [24 + channels, 16])
        self.head = nn.Linear(16, classes)

    def forward(self, x, pos, batch):
        fine = (x, pos, batch)
        middle = self.sa1(*fine)
        coarse = self.sa2(*middle)
        whole = global_max_pool(self.lift(torch.cat(coarse[:2], dim=1)), coarse[2])
        joined = torch.cat([coarse[0], whole[coarse[2]]], dim=1)
        middle = self.fp2((joined, *coarse[1:]), middle)
        return self.head(self.fp1(middle, fine)[0])


class PointTransformer(nn.Module):
    """Two transformer blocks with a transition down and a transition up between them."""

    def __init__(self, channels=4, classes=5):
        super().__init__()
        self.lift = MLP([channels, 16], plain_last=False)
        self.fine, self.coarse = self._block(16), self._block(32)
        self.down = MLP([16, 32], plain_last=False)
        self.up = MLP([32, 16], plain_last=False)
        self.head = nn.Linear(16, classes)

    @staticmethod
    def _block(width):
        position = MLP([3, 16, width], norm=None)
        attention = MLP([width, 16, width], norm=None)
        return PointTransformerConv(width, width, pos_nn=position, attn_nn=attention)

    def forward(self, x, pos, batch):
        x = self.lift(x)
        x = x + self.fine(x, pos, knn_graph(pos, 8, batch))
        idx = fps(pos, batch, ratio=0.25, random_start=False)
        coarse, points = knn(pos, pos[idx], 6, batch, batch[idx])
        y = scatter(self.down(x)[points], coarse, dim=0, dim_size=idx.numel(), reduce="max")
        y = y + self.coarse(y, pos[idx], knn_graph(pos[idx], 4, batch[idx]))
        up = knn_interpolate(self.up(y), pos[idx], pos, batch[idx], batch, k=3)
        return self.head(x + up)


class DGCNN(nn.Module):
    """Classification on graphs that are searched anew among the features of every layer."""

    def __init__(self, k=8, classes=5):
        super().__init__()
        self.conv1 = DynamicEdgeConv(MLP([2 * 3, 16, 16]), k, "max")
        self.conv2 = DynamicEdgeConv(MLP([2 * 16, 32]), k, "max")
        self.lift = nn.Linear(16 + 32, 32)
        self.head = MLP([32, 16, classes], norm=None)

    def forward(self, pos, batch):
        x1 = self.conv1(pos, batch)
        x2 = self.conv2(x1, batch)
        return self.head(global_max_pool(self.lift(torch.cat([x1, x2], dim=1)), batch))


class PointCNN(nn.Module):
    """X-convolutions, dilated after farthest point sampling."""

    def __init__(self, classes=5):
        super().__init__()
        self.conv1 = XConv(0, 16, dim=3, kernel_size=6, hidden_channels=8)
        self.conv2 = XConv(16, 24, dim=3, kernel_size=5, hidden_channels=8, dilation=2)
        self.head = nn.Linear(24, classes)

    def forward(self, pos, batch):
        x = torch.relu(self.conv1(None, pos, batch))
        idx = fps(pos, batch, ratio=0.4, random_start=False)
        x, pos, batch = x[idx], pos[idx], batch[idx]
        return self.head(global_mean_pool(torch.relu(self.conv2(x, pos, batch)), batch))


class GravNet(nn.Module):
    """Two layers that learn the space in which they search neighbours."""

    def __init__(self, channels=4, classes=5):
        super().__init__()
        self.conv1 = GravNetConv(channels, 16, 4, 8, k=7)
        self.conv2 = GravNetConv(16, 16, 3, 8, k=5)
        self.head = nn.Linear(16, classes)

    def forward(self, x, batch):
        return self.head(self.conv2(torch.relu(self.conv1(x, batch)), batch))
