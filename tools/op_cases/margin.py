"""Losses of margins and distances."""
import torch

T = {"rtol": 1e-5, "atol": 1e-5}
HALF = {"rtol": 1.6e-2, "atol": 1.6e-2}
nan, inf = float("nan"), float("inf")


def cases(c):
    x, y, z = c.ramp((3, 4)), c.ramp((3, 4), seed=7), c.ramp((3, 4), seed=11)
    sign, row_sign = c.tensor([1, -1, 1, -1]), c.tensor([1, -1, 1])
    for reduction in (0, 1, 2):
        c.add("aten.soft_margin_loss.default", x, sign.expand(3, 4), reduction, **T)
        c.add("aten.soft_margin_loss.default", x.bfloat16(), sign.expand(3, 4).bfloat16(), reduction, **HALF)
        for margin in (0.0, 0.5):
            c.add("aten.margin_ranking_loss.default", x, y, sign, margin, reduction, **T)
            c.add("aten.hinge_embedding_loss.default", x, sign, margin, reduction, **T)
            c.add("aten.cosine_embedding_loss.default", x, y, row_sign, margin, reduction, **T)
        c.add("aten.cosine_embedding_loss.default", x[0], y[0], c.tensor(-1), 0.0, reduction, **T)
        c.add("aten.hinge_embedding_loss.default", c.edges(), torch.ones(12), 1.0, reduction)
        for p in (1.0, 2.0, 3.0):
            for swap in (False, True):
                c.add("aten.triplet_margin_loss.default", x, y, z, 1.0, p, 1e-6, swap, reduction, **T)
        for log_input in (True, False):
            for full in (True, False):
                c.add("aten.poisson_nll_loss.default", x.abs() / 4, y.abs(), log_input, full, 1e-8, reduction, **T)
        target, weight = torch.tensor([1, 0, 3]), c.tensor([0.5, 2, 0, 1])
        for p in (1, 2):
            for w in (None, weight):
                c.add("aten.multi_margin_loss.default", x, target, p, 0.5, w, reduction, **T)
        c.add("aten.multi_margin_loss.default", x[0], torch.tensor(2), 1, 1, None, reduction, **T)
        labels = torch.tensor([[1, 3, -1, 2], [-1, 0, 1, 2], [0, 1, 2, 3]])
        c.add("aten.multilabel_margin_loss.default", x, labels, reduction, **T)
        c.add("aten.multilabel_margin_loss.default", x[0], labels[0], reduction, **T)
        image, classes = c.ramp((2, 3, 2, 2)), torch.tensor([[[0, 1], [2, 1]], [[1, 1], [0, 2]]])
        for w in (None, weight[:3]):
            c.add("aten.nll_loss2d.default", image, classes, w, reduction, 1, **T)
    c.add("aten.soft_margin_loss.default", torch.zeros(0), torch.zeros(0))
    for p in (0.0, 1.0, 2.0, 3.5, inf):
        c.add("aten.pairwise_distance.default", x, y, p, 1e-6, p == 2.0, **T)
    c.add("aten.pairwise_distance.default", x[0], y, **T), c.add("aten.pairwise_distance.default", x[0], y[0], **T)
    c.add("aten.log_sigmoid.default", c.edges(), **T), c.add("aten.log_sigmoid.default", c.ramp((4,), torch.bfloat16), **HALF)
    c.add("aten.rrelu.default", c.edges(), 0.1, 0.3), c.add("aten.rrelu.default", x)
