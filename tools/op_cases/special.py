"""Special functions, bits of numbers, counts and statistics."""
import torch

FLOATS = (torch.float32, torch.float64)
INF, NAN = float("inf"), float("nan")


def tolerance(dtype):
    """Sums of 20 terms, rounded in f32 as PyTorch's are; expected f64 values have ten digits."""
    return 2e-6 if dtype == torch.float32 else 1e-9


def bessel(c):
    for dtype in FLOATS:
        x = c.tensor([NAN, INF, -INF, 0.0, -0.0, 1e-8, 0.3, -1.5, 4.0, 7.999, 8.0, -8.5, 17.0, 60.0], dtype)
        for name in ("i0", "special_i0", "special_i0e", "special_i1", "special_i1e"):
            c.add(f"aten.{name}.default", x, rtol=tolerance(dtype))
    for dtype in (torch.float16, torch.bfloat16):
        c.attempt("aten.i0.default", c.tensor([0.5, -3.0, 9.0], dtype))
    c.add("aten.special_i0e.default", c.ramp([3], torch.int64))


def normal(c):
    for dtype in FLOATS:
        x = c.tensor([NAN, INF, -INF, 0.0, -0.5, 0.5, -3.0, 4.0, 12.0, 19.5, 25.0, 100.0], dtype)
        c.add("aten.special_erfcx.default", x, rtol=tolerance(dtype))
        c.add("aten.special_log_ndtr.default", c.tensor([NAN, INF, -INF, 0.0, -0.5, 2.0, -1.0, -5.0, -30.0, -1000.0], dtype),
              rtol=tolerance(dtype))
        c.add("aten.special_ndtri.default", c.tensor([NAN, 0.0, 1.0, 0.5, 0.25, 0.999, 1e-3, 1e-4, 1e-12, -0.5, 1.5], dtype),
              rtol=tolerance(dtype), atol=1e-15)


def zeta(c):
    for dtype in FLOATS:
        x = c.tensor([2.0, 3.0, 1.5, 7.0, 1.0, 0.5, 2.0, 2.0, 30.0], dtype)
        q = c.tensor([1.0, 0.25, 4.0, 20.0, 3.0, 3.0, -1.0, NAN, 0.5], dtype)
        c.add("aten.special_zeta.default", x, q, rtol=tolerance(dtype))
        for n in (0, 1, 2, 5):
            c.add("aten.polygamma.default", n, c.tensor([0.5, 1.0, 2.5, 30.0, 0.01], dtype), rtol=1e-5 if dtype == torch.float32 else 2e-9)
    c.add("aten.special_zeta.self_scalar", 2.0, c.tensor([1.0, 2.0, 3.0]), rtol=2e-6)
    c.add("aten.special_zeta.other_scalar", c.tensor([2.0, 3.0]), 1.5, rtol=2e-6)
    c.add("aten.special_polygamma.default", 1, c.ramp([3], torch.int64, lo=1, step=1), rtol=1e-5)


def binary(c):
    for dtype in FLOATS:
        x, y = c.tensor([0.0, 0.0, 2.0, -1.5, 1.0, NAN], dtype), c.tensor([INF, NAN, 0.5, 3.0, -1.0, 1.0], dtype)
        c.add("aten.special_xlog1py.default", x, y)
        for a in (c.edges(dtype), c.tensor([1e-40, -1e-40, 0.1, 1e30], dtype)):
            c.add("aten.nextafter.default", a.unsqueeze(1), c.tensor([INF, -INF, 0.0, NAN], dtype))
    c.add("aten.special_xlog1py.self_scalar", 2.0, c.tensor([0.5, 0.0]))
    c.add("aten.special_xlog1py.other_scalar", c.tensor([0.5, 0.0]), 3)
    c.attempt("aten.nextafter.default", c.tensor([1.0, 0.0, -2.0], torch.bfloat16), c.tensor([2.0, -1.0, 0.0], torch.bfloat16))
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        a, b = c.ramp([4, 1], dtype, lo=0, step=3), c.ramp([5], dtype, lo=1, step=2)
        c.add("aten.gcd.default", a, b)
        c.add("aten.lcm.default", a, b)
    c.add("aten.gcd.default", c.tensor([-12, 0, 0, 7], torch.int64), c.tensor([18, 0, -5, 0], torch.int32))
    c.add("aten.lcm.default", c.tensor([-12, 0, 0, 7], torch.int64), c.tensor([18, 0, -5, 0], torch.int32))
    c.add("aten.ldexp.Tensor", c.tensor([1.5, -0.75, 0.0, INF]), c.tensor([3, -4, 2, 1], torch.int32))
    c.add("aten.ldexp.Tensor", c.tensor([1.5, -0.75], torch.float64), c.tensor([3, -4], torch.int64))
    c.add("aten.ldexp.Tensor", c.tensor([3, 5], torch.int64), c.tensor([3, -4], torch.int64))
    c.add("aten.ldexp.Tensor", c.tensor([1.5, 2.0], torch.bfloat16), c.tensor([0.5, 2.0]))


def unary(c):
    for dtype in FLOATS + (torch.int64, torch.bool):
        c.add("aten.angle.default", c.edges(dtype))
    for dtype in FLOATS:
        tiny = torch.finfo(dtype).tiny
        c.add("aten.frexp.Tensor", c.edges(dtype))
        c.add("aten.frexp.Tensor", c.tensor([tiny * 1.5, tiny * 0.375, -tiny * 0.625 / 1024, 1e30, 0.1, -1024.0], dtype))
    c.attempt("aten.frexp.Tensor", c.tensor([0.1, 6e-8, -65504.0], torch.float16))
    c.add("aten.isreal.default", c.ramp([2]))
    c.add("aten.conj_physical.default", c.ramp([2]))


def bits(c):
    x = c.tensor([1.0, -2.5, 0.0, 1e-40, INF, 0.1, 3.0, -7.25]).reshape(2, 4)
    d = c.tensor([1.0, -2.5, 1e300, 0.1], torch.float64).reshape(2, 2)
    h = c.tensor([1.0, -2.5, 6e-8, 0.1], torch.float16).reshape(2, 2)
    b = c.tensor([1.0, -2.5, 1e-40, 0.1], torch.bfloat16).reshape(2, 2)
    i = torch.tensor([[1, -2, 0x3f800000, 7], [0x40490fdb, 255, -1, 65536]], dtype=torch.int32)
    u = torch.tensor([[0, 0, 128, 63, 1, 2, 3, 64]], dtype=torch.uint8)
    for t, to in ((x, torch.int32), (x, torch.uint8), (x, torch.int16), (x, torch.float64), (x, torch.bfloat16), (x, torch.int64), (i, torch.float32),
                  (i, torch.int8), (i, torch.int64), (i, torch.float16), (d, torch.int64), (d, torch.float32), (d, torch.uint8), (h, torch.int16),
                  (h, torch.bfloat16), (h, torch.float32), (b, torch.int16), (b, torch.int32), (u, torch.float32), (u, torch.int64), (u, torch.int8),
                  (u, torch.bfloat16), (c.tensor([1, 0], torch.bool), torch.uint8), (c.tensor([2.5]).reshape(()), torch.int32)):
        c.add("aten.view.dtype", t, to)


def counts(c):
    x = torch.tensor([3, 0, 3, 1, 5])
    c.add("aten.bincount.default", x, data={0: [0]})
    c.add("aten.bincount.default", x, None, 9, data={0: [0]})
    c.add("aten.bincount.default", x.to(torch.uint8), c.ramp([5]), data={0: [0]})
    c.add("aten.bincount.default", x, c.ramp([5], torch.int32), 2, data={0: [0]})
    m = torch.tensor([[2, 1, 2], [0, 1, 2], [2, 1, 2], [0, 0, 9], [0, 1, 2]])
    for flags in ((True, True), (False, False), (True, False)):
        data = {0: [0], 2: [0]}
        c.add("aten.unique_dim.default", m, 0, True, *flags, data=data)
    c.add("aten.unique_dim.default", m.to(torch.float32), 1, True, True, True, data={0: [1], 2: [0]})
    c.add("aten.unique_dim.default", c.tensor([2, 1, 2], torch.int64), 0, data={0: [0], 2: [0]})
    rows = torch.tensor([[1, 2], [1, 2], [0, 2], [1, 2]])
    c.add("aten.unique_consecutive.default", rows, True, True, 0, data={0: [0], 2: [0]})
    c.add("aten.unique_consecutive.default", rows.t().contiguous(), False, True, -1, data={0: [1], 2: [0]})
    c.add("aten._unique.default", torch.tensor([[2, 1], [2, 7]]), True, True, data={0: [0]})


def statistics(c):
    x = c.ramp([3, 5])
    c.add("aten.cov.default", x, rtol=1e-5, atol=1e-5)
    c.add("aten.cov.default", x.to(torch.float64), correction=0)
    c.add("aten.cov.default", x[0])
    f, a = torch.tensor([1, 2, 1, 3, 1]), c.tensor([0.5, 1.0, 0.25, 2.0, 1.0])
    c.add("aten.cov.default", x, fweights=f, rtol=1e-5, atol=1e-5)
    c.add("aten.cov.default", x, aweights=a, rtol=1e-5, atol=1e-5)
    c.add("aten.cov.default", x, fweights=f, aweights=a, correction=2, rtol=1e-5, atol=1e-5)
    c.add("aten.corrcoef.default", x, rtol=1e-5, atol=1e-5)
    c.add("aten.corrcoef.default", x[1])
    c.add("aten.vander.default", c.tensor([1.0, 2.0, -3.0]))
    c.add("aten.vander.default", torch.tensor([1, 2, -3]), 5, True)
    c.add("aten.linalg_vander.default", c.ramp([2, 3]), N=4)
    for p in (0.0, 1.0, 2.0, 3.5, INF):
        c.add("aten.pdist.default", c.ramp([4, 3]), p)
    c.add("aten._pdist_forward.default", c.ramp([2, 3], torch.float64))
    c.add("aten.pdist.default", c.ramp([1, 3]))
    c.add("aten.sum_to_size.default", c.ramp([2, 3, 4]), [3, 1])
    c.add("aten.sum_to_size.default", c.ramp([3]), [3])
    c.add("aten._shape_as_tensor.default", c.ramp([2, 3]))
    c.add("aten._dim_arange.default", c.ramp([2, 3]), 1)
    c.add("aten.linalg_diagonal.default", c.ramp([2, 3, 4]), offset=1)
    c.add("aten.searchsorted.Scalar", c.tensor([1.0, 2.5, 4.0]), 2.5)
    c.add("aten.searchsorted.Scalar", torch.tensor([1, 2, 4]), 2, right=True)
    c.add("aten._cast_Float.default", c.ramp([3], torch.int64))
    c.add("aten.resize.default", c.ramp([2, 3]), [2, 2])


def index_reduce(c):
    x, src, i = c.ramp([4, 3]), c.ramp([5, 3], seed=3), torch.tensor([0, 2, 2, 0, 3])
    for how in ("prod", "mean", "amax", "amin"):
        for own in (True, False):
            c.add("aten.index_reduce.default", x, 0, i, src, how, include_self=own)
    c.add("aten.index_reduce.default", c.ramp([2, 4], torch.int64), 1, i, c.ramp([2, 5], torch.int64), "mean")
    c.add("aten.index_reduce.default", c.ramp([2, 4]), -1, i.to(torch.int32), c.ramp([2, 5]), "amax")


def cases(c):
    for family in (bessel, normal, zeta, binary, unary, bits, counts, statistics, index_reduce):
        family(c)
    w, b = c.ramp([2, 3, 2, 2]), c.ramp([2])
    c.add("aten._convolution.default", c.ramp([1, 3, 4, 4]), w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, False, False)
    c.attempt("aten.conv3d.padding", c.ramp([1, 1, 3, 3, 3]), c.ramp([1, 1, 2, 2, 2]), None, padding="same")
    c.attempt("aten.thnn_conv2d.default", c.ramp([1, 3, 4, 4]), w, [2, 2], b)
