"""torchvision's operators on regions."""
import torch
import torchvision  # noqa: F401


def cases(c):
    x = c.ramp([2, 3, 6, 5])
    rois = c.tensor([[0, 0.5, 0.75, 4, 5], [1, -3, 1, 3, 4.5], [0, 2, 2, 2.25, 2.25], [1, 1, 0, 9, 7]])
    for aligned in (False, True):
        c.add("torchvision.roi_align.default", x, rois, 1.0, 2, 3, 2, aligned, rtol=1e-5, atol=1e-5)
        c.add("torchvision.roi_align.default", x, rois[:3], 0.5, 2, 2, -1, aligned, rtol=1e-5, atol=1e-5)
    c.add("torchvision.roi_align.default", x.to(torch.float64), rois.to(torch.float64), 0.75, 1, 2, 3, True)

    w, b = c.ramp([4, 3, 3, 3], seed=2), c.ramp([4])
    offset, mask = c.ramp([2, 18, 6, 5], lo=-1.5, step=0.15625), c.ramp([2, 9, 6, 5], lo=0, step=0.0625)
    t = dict(rtol=1e-5, atol=1e-4)  # sums of 27 products of some size
    c.add("torchvision.deform_conv2d.default", x, w, offset, mask, b, 1, 1, 1, 1, 1, 1, 1, 1, True, **t)
    c.add("torchvision.deform_conv2d.default", x, w, offset[:, :, :3, :3].contiguous(), mask[:, :, :3, :3].contiguous(), b, 2, 2, 1, 1, 1, 1, 1, 1, False, **t)
    x4, w4 = c.ramp([1, 4, 5, 5]), c.ramp([2, 2, 2, 1], seed=4)
    c.add("torchvision.deform_conv2d.default", x4, w4, c.ramp([1, 8, 3, 5], lo=-1, step=0.125), c.ramp([1, 4, 3, 5]), torch.zeros(2), 1, 1, 0, 0, 2, 1, 2, 2, True, **t)

    one = {0: [0]}
    boxes = c.tensor([[0, 0, 4, 4], [0, 0, 4, 3], [1, 1, 5, 5], [6, 6, 8, 8], [6, 6, 8, 8], [2, 2, 2, 2], [0, 0, 4, 4]])
    scores = c.tensor([0.5, 0.75, 0.25, 1, 1, 0.5, 0.5])
    for threshold in (0.0, 0.375, 0.75, 1.0):  # 0.75 is a ratio that occurs: it is not above the threshold
        c.add("torchvision.nms.default", boxes, scores, threshold, data=one)
    c.add("torchvision.nms.default", boxes.to(torch.float64), scores.to(torch.float64), 0.3, data=one)
    nan = float("nan")
    c.add("torchvision.nms.default", c.tensor([[0, 0, 4, 4], [0, nan, 4, 4], [4, 4, 0, 0], [0, 0, float("inf"), 4], [0, 0, 3, 4]]), c.tensor([1, nan, 3, 2, -1]), 0.5, data=one)
    c.add("torchvision.nms.default", torch.zeros(0, 4), torch.zeros(0), 0.5, data=one)
    many = torch.cat([c.ramp([40, 2], lo=0, step=2), c.ramp([40, 2], lo=50, step=1, seed=5)], 1)
    c.add("torchvision.nms.default", many, c.ramp([40], seed=3), 0.6, data=one)
