"""Other names and overloads of operators that have cases of their own, and joins, splits and sets."""
import torch

nan, inf = float("nan"), float("inf")
T = {"rtol": 1e-5, "atol": 1e-5}


def pointwise(c):
    x = c.edges()
    for name in ("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "fix", "special_expit", "special_erf", "special_erfc", "special_erfinv", "special_exp2",
                 "special_expm1", "special_log1p", "special_gammaln", "special_digamma", "special_psi", "special_logit", "special_sinc", "sinc"):
        c.attempt(f"aten.{name}.default", x if name not in ("special_digamma", "special_psi") else c.tensor([0.5, 1, 2.5, 3]), **T)
    c.add("aten.sinc.default", c.ramp((3,), torch.int64), **T)
    y, i = c.ramp((3, 4)), c.ramp((3, 4), torch.int64)
    c.add("aten.arctan2.default", y, y.flip(0), **T), c.add("aten.special_round.default", y), c.add("aten.special_round.default", y, decimals=1, **T)
    for decimals in (0, 1, 2, -1):
        c.add("aten.round.decimals", y * 3.7, decimals=decimals, **T)
    for name in ("divide", "multiply", "subtract", "true_divide"):
        c.add(f"aten.{name}.Scalar", y, 3, **T), c.add(f"aten.{name}.Scalar", i, 2, **T)
    for mode in ("floor", "trunc", None):
        c.add("aten.divide.Tensor_mode", y, y.flip(1) + 0.25, rounding_mode=mode, **T), c.add("aten.divide.Scalar_mode", i, 3, rounding_mode=mode, **T)
    for name in ("greater", "less", "greater_equal", "less_equal", "not_equal"):
        c.add(f"aten.{name}.Scalar", y, 0.5)
    for name in ("greater_equal", "less_equal"):
        c.add(f"aten.{name}.Tensor", y, y.flip(0))
    c.add("aten.clip.Tensor", y, c.tensor(-1), c.tensor([0, 1, 2, 3])), c.add("aten.clip.Tensor", y, None, c.tensor(1))
    for op in ("xlogy", "special_xlogy"):
        c.add("aten.xlogy.Scalar_Self" if op == "xlogy" else "aten.special_xlogy.self_scalar", 2.5, y.abs(), **T), c.add("aten.xlogy.Scalar_Other" if op == "xlogy" else "aten.special_xlogy.other_scalar", y, 3, **T)
    c.add("aten.special_xlogy.default", y, y.abs(), **T)
    c.add("aten.float_power.Tensor_Tensor", y.abs(), c.ramp((3, 4), seed=4)), c.add("aten.float_power.Scalar", 2.2, i), c.add("aten.float_power.Scalar", 2, y)
    c.add("aten.copysign.Scalar", y, -1.5), c.add("aten.remainder.Scalar_Tensor", 7, y + 0.25, **T), c.add("aten.mvlgamma.default", y.abs() + 2, 3, **T), c.add("aten.special_multigammaln.default", y.abs() + 1, 2, **T)
    bits = c.ramp((4,), torch.int64).abs()
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        c.add(f"aten.{name}.Tensor_Scalar", bits, 2), c.add(f"aten.{name}.Scalar_Tensor", 13, bits)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        c.add(f"aten.{name}.Scalar_Tensor", 5, bits)
    c.add("aten.__lshift__.Tensor", bits, bits), c.add("aten.__rshift__.Tensor", bits, bits), c.add("aten.__xor__.Scalar", bits, 6)
    c.add("aten.bucketize.Scalar", 2.5, c.tensor([1, 2, 3])), c.add("aten.feature_alpha_dropout.default", y, 0.5, False)
    c.add("aten.special_softmax.default", y, 1, **T), c.add("aten.special_log_softmax.default", y, 0, **T), c.add("aten.special_logsumexp.default", y, [1], **T)


def shapes(c):
    x = c.ramp((2, 3, 4))
    c.add("aten.swapdims.default", x, 0, 2), c.add("aten.moveaxis.int", x, 0, 2), c.add("aten.moveaxis.intlist", x, [0, 1], [2, 0])
    c.add("aten.adjoint.default", x), c.add("aten.mH.default", x), c.add("aten.matrix_H.default", x[0])
    scalar, vector, matrix = c.tensor(1.5), c.ramp((3,)), c.ramp((2, 3))
    for n in (1, 2, 3):
        for t in (scalar, vector, matrix, x):
            c.add(f"aten.atleast_{n}d.default", t)
        c.add(f"aten.atleast_{n}d.Sequence", [scalar, vector, matrix])
    for name in ("dstack", "column_stack", "row_stack"):
        c.add(f"aten.{name}.default", [vector, vector + 1]), c.add(f"aten.{name}.default", [scalar, scalar]), c.add(f"aten.{name}.default", [matrix, matrix.to(torch.float64)])
    c.add("aten.column_stack.default", [c.ramp((2,)), matrix])
    c.add("aten.hsplit.int", x, 3), c.add("aten.hsplit.int", c.ramp((4,)), 2), c.add("aten.vsplit.int", x, 2), c.add("aten.dsplit.int", x, 2)
    c.add("aten.hsplit.array", x, [1, 2]), c.add("aten.hsplit.array", c.ramp((5,)), [1, 3]), c.add("aten.vsplit.array", x, [1]), c.add("aten.dsplit.array", x, [1, 3])
    for at in ([1, 3], [3, 1], [-1], [2, 9]):
        c.add("aten.tensor_split.indices", x, at, 2)
    c.add("aten.split_with_sizes_copy.default", x, [1, 3], 2), c.add("aten.meshgrid.default", [vector, c.ramp((2,))])
    c.add("aten.broadcast_tensors.default", [vector, c.ramp((2, 1)), scalar])
    c.add("aten.cartesian_prod.default", [vector, c.ramp((2,)), c.ramp((2,), seed=3)]), c.add("aten.cartesian_prod.default", [vector])
    c.add("aten.block_diag.default", [matrix, vector, scalar, c.ramp((0, 2)), c.ramp((2, 2), torch.int64)])
    for offset in (0, 1, -2):
        c.add("aten.diagflat.default", matrix, offset), c.add("aten.diagflat.default", scalar, offset)
    c.add("aten.concatenate.default", [matrix, matrix], 1), c.add("aten.native_channel_shuffle.default", c.ramp((1, 4, 2, 2)), 2), c.add("aten.unfold_copy.default", x, 2, 2, 1)
    for first in (False, True):
        for side in ("right", "left"):
            c.add("aten.pad_sequence.default", [c.ramp((3, 2)), c.ramp((1, 2)), c.ramp((2, 2))], first, 1.5, side)
    c.add("aten.pad_sequence.default", [c.ramp((3,), torch.int64), c.ramp((2,), torch.int64)], True, -100.0)


def reductions(c):
    x = c.ramp((2, 3, 4))
    holes = x.clone()
    holes[0, 1], holes[1, 0, 0] = nan, nan
    for op in ("std_mean", "var_mean"):
        c.add(f"aten.{op}.default", x, **T), c.add(f"aten.{op}.default", x, False, **T)
    c.add("aten.std_mean.dim", x, [1], True, True, **T), c.add("aten.std_mean.dim", x, [0, 2], False, **T)
    for dim in (None, [2], [0, 1]):
        c.add("aten.nanmean.default", holes, dim, **T), c.add("aten.nanmean.default", holes, dim, True, dtype=torch.float64)
    c.add("aten.nanmean.default", torch.zeros(0)), c.add("aten.nanmean.default", c.ramp((3,), torch.bfloat16))
    c.add("aten.count_nonzero.default", x), c.add("aten.count_nonzero.default", c.ramp((3, 4), torch.int64), 1), c.add("aten.count_nonzero.default", c.tensor(2))
    test, i = c.tensor([1, 2, -4]), c.ramp((3, 4), torch.int64)
    for invert in (False, True):
        c.add("aten.isin.Tensor_Tensor", i, test.to(torch.int64), invert=invert), c.add("aten.isin.Tensor_Tensor", x, test, invert=invert)
        c.add("aten.isin.Tensor_Scalar", i, 2, invert=invert), c.add("aten.isin.Scalar_Tensor", 2, i, invert=invert)
        c.add("aten.isin.Tensor_Tensor", i, torch.zeros(0, dtype=torch.int64), invert=invert)


def cases(c):
    pointwise(c)
    shapes(c)
    reductions(c)
