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
