"""Products of matrices and vectors, einsum."""
import torch

nan, inf = float("nan"), float("inf")


def ranks(c, dtype):
    """Every pair of ranks that matmul tells apart, broadcast batches and sizes of 0 and 1 among them."""
    r = lambda *s, seed=0: c.ramp(s, dtype, seed=seed)
    pairs = [((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 2)), ((3, 5), (5, 2)), ((2, 3, 5), (5,)), ((2, 3, 5), (5, 2)),
             ((5,), (2, 5, 3)), ((3, 5), (2, 5, 2)), ((2, 3, 5), (2, 5, 2)), ((2, 1, 3, 5), (3, 5, 2)), ((1, 3, 5), (2, 5, 2)),
             ((0, 5), (5, 2)), ((3, 0), (0, 2)), ((2, 0, 5), (5, 2)), ((1, 1), (1, 1)), ((2, 2, 3, 5), (5, 7))]
    for a, b in pairs:
        c.attempt("aten.matmul.default", r(*a), r(*b, seed=3))


def scaled(c, dtype):
    """Small whole numbers, so that the rounding of a 16-bit product before a scaled sum does not show."""
    r = lambda *s, seed=0: (c.ramp(s, torch.int64, seed=seed) % 3 - 1).to(dtype)
    a, b = r(3, 5), r(5, 2, seed=4)
    for self in (r(3, 2, seed=1), r(2, seed=1), r(3, 1, seed=2), r(seed=2)):
        c.attempt("aten.addmm.default", self, a, b)
    for beta, alpha in ((1, 2), (0, 1), (2, 1), (0, 3), (3, 2)):
        c.attempt("aten.addmm.default", r(3, 2, seed=1), a, b, beta=beta, alpha=alpha)
        c.attempt("aten.addmv.default", r(3, seed=1), a, r(5), beta=beta, alpha=alpha)
    c.attempt("aten.addmv.default", r(seed=1), a, r(5))
    p, q = r(2, 3, 5), r(2, 5, 2, seed=4)
    for beta, alpha in ((1, 1), (0, 2), (2, 3)):
        c.attempt("aten.baddbmm.default", r(2, 3, 2, seed=1), p, q, beta=beta, alpha=alpha)
        c.attempt("aten.addbmm.default", r(3, 2, seed=1), p, q, beta=beta, alpha=alpha)
    c.attempt("aten.baddbmm.default", r(1, 2, seed=1), p, q)


def einsum(c):
    r = lambda *s, seed=0: c.ramp(s, seed=seed)
    one = [("i->", (3,)), ("ij->ji", (2, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("ijj->ij", (2, 3, 3)), ("ij->j", (2, 3)), ("i...->...", (2, 3)),
           ("...ij->...ji", (2, 3, 5)), ("ba", (2, 3)), ("iij", (2, 2, 3)), ("iii->i", (2, 2, 2))]
    for eq, a in one:
        c.add("aten.einsum.default", eq, [r(*a)])
    two = [("ij,jk->ik", (2, 3), (3, 5)), ("ij,jk", (2, 3), (3, 5)), ("i,i->", (3,), (3,)), ("i,j->ij", (2,), (3,)), ("bij,bjk->bik", (2, 3, 5), (2, 5, 2)),
           ("bhqd,bhkd->bhqk", (2, 2, 3, 5), (2, 2, 1, 5)), ("...ij,...jk->...ik", (2, 3, 5), (5, 2)), ("bij,kj->bki", (2, 3, 5), (2, 5)),
           ("ij,ij->ij", (2, 3), (2, 3)), ("ij,i->j", (2, 3), (2,)), ("ij,kl->", (2, 3), (2, 2)), ("ij,jk->ki", (2, 3), (3, 5)), ("ij,jk->ik", (2, 1), (3, 5)),
           ("b...i,i->b...", (2, 3, 5), (5,)), ("...i,...i->...", (2, 3), (1, 3)), ("abcd,aefd->abcef", (2, 3, 1, 5), (2, 2, 2, 5)), ("ij,jk->ik", (0, 3), (3, 2)),
           (" i j , j k -> i k ", (2, 3), (3, 5)), ("ii,i->i", (3, 3), (3,)), ("Ab,bA->Ab", (2, 3), (3, 2))]
    for eq, a, b in two:
        c.add("aten.einsum.default", eq, [r(*a), r(*b, seed=5)])
    c.add("aten.einsum.default", "ij,jk,kl->il", [r(2, 3), r(3, 2, seed=1), r(2, 5, seed=2)])
    c.add("aten.einsum.default", "bi,ij,bj->b", [r(2, 3), r(3, 2, seed=1), r(2, 2, seed=2)])
    c.add("aten.einsum.default", "bn,anm,bm->ba", [r(2, 3), r(5, 3, 2, seed=1), r(2, 2, seed=2)])
    c.add("aten.einsum.default", "ij,jk->ik", [c.ramp((2, 3), torch.bfloat16), c.ramp((3, 5), torch.bfloat16, seed=5)])


def cases(c):
    f, h, b, i = torch.float32, torch.float16, torch.bfloat16, torch.int64
    for dtype in (f, b, i):
        ranks(c, dtype)
    scaled(c, f), scaled(c, b), scaled(c, i)
    bad = torch.full((2, 2), nan)
    for op, self in (("addmm", bad), ("addmv", bad[0]), ("addbmm", bad), ("baddbmm", bad.expand(1, 2, 2))):
        x, y = (c.ramp((2, 3)), c.ramp((3, 2)) if op == "addmm" else c.ramp((3,)))
        if op in ("addbmm", "baddbmm"):
            x, y = c.ramp((1, 2, 3)), c.ramp((1, 3, 2))
        c.add(f"aten.{op}.default", self, x, y, beta=0)
        c.add(f"aten.{op}.default", self, x, y, beta=0, alpha=2)
    for dtype in (f, h):
        r = lambda *s, seed=0: c.ramp(s, dtype, seed=seed)
        c.add("aten.mm.default", r(3, 5), r(5, 2, seed=1)), c.add("aten.bmm.default", r(2, 3, 5), r(2, 5, 2, seed=1))
        c.add("aten.mm.default", r(5, 3).t(), r(2, 5, seed=1).t())
        c.add("aten.mv.default", r(3, 5), r(5, seed=1)), c.add("aten.dot.default", r(5), r(5, seed=1)), c.add("aten.vdot.default", r(5), r(5, seed=1))
        c.add("aten.outer.default", r(3), r(2, seed=1))
        for x in ((5,), (3, 5), (2, 3, 5), (0, 5)):
            c.add("aten.linear.default", r(*x), r(2, 5, seed=1)), c.add("aten.linear.default", r(*x), r(2, 5, seed=1), r(2, seed=2))
        c.add("aten.linear.default", r(3, 5), r(5, seed=1))
    c.add("aten.dot.default", c.ramp((0,)), c.ramp((0,)))
    c.add("aten.outer.default", c.ramp((2,)), c.ramp((2,), i))
    c.add("aten.inner.default", c.ramp((2, 3)), c.ramp((5, 3), seed=1)), c.add("aten.inner.default", c.ramp((3,)), c.ramp((2, 2, 3), seed=1))
    c.add("aten.inner.default", c.ramp((3,)), c.ramp((3,), seed=1)), c.add("aten.inner.default", c.tensor(2.5), c.ramp((3,), seed=1))
    c.add("aten.tensordot.default", c.ramp((2, 3, 5)), c.ramp((5, 3, 2), seed=1), [1, 2], [1, 0])
    c.add("aten.tensordot.default", c.ramp((2, 3)), c.ramp((3, 2), seed=1), [-1], [0]), c.add("aten.tensordot.default", c.ramp((2,)), c.ramp((3,)), [], [])
    c.add("aten.tensordot.default", c.ramp((2, 1)), c.ramp((3, 2), seed=1), [1], [0])
    c.add("aten.kron.default", c.ramp((2, 3)), c.ramp((2, 2), seed=1)), c.add("aten.kron.default", c.ramp((2,)), c.ramp((2, 2), seed=1))
    c.add("aten.kron.default", c.ramp((2,), i), c.ramp((2,), f))
    for bias in (None, c.ramp((2,), seed=3)):
        c.add("aten.bilinear.default", c.ramp((3, 2)), c.ramp((3, 5), seed=1), c.ramp((2, 2, 5), seed=2), bias)
    c.add("aten.bilinear.default", c.ramp((2, 3, 2)), c.ramp((2, 3, 5), seed=1), c.ramp((2, 2, 5), seed=2))
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        a, w, b = c.ramp((3, 2), dtype), c.ramp((2, 2, 5), dtype, seed=2), c.ramp((3, 5), dtype, seed=1)
        c.attempt("aten._trilinear.default", a, w, b, [1, 3], [0], [1, 2], [2, 3])
    c.add("aten._trilinear.default", a.float(), a.float(), a.float(), [], [], [], [1]), c.add("aten._trilinear.default", a[:2].float(), a[:2].float(), a[:2].float(), [0], [1], [2], [])
    c.add("aten._trilinear.default", torch.zeros(0, 2), c.ramp((2, 2, 5)), torch.zeros(0, 5), [1, 3], [0], [1, 2], [2, 3])
    for args in ((c.ramp((2, 3)), c.ramp((2, 3), seed=1)), (c.ramp((2, 3)), c.ramp((1, 3), seed=1)), (c.ramp((2, 3)), torch.zeros(2, 3))):
        c.add("aten.cosine_similarity.default", *args), c.add("aten.cosine_similarity.default", *args, dim=0), c.add("aten.cosine_similarity.default", *args, dim=-1, eps=0.5)
    c.add("aten.linalg_cross.default", c.ramp((2, 3)), c.ramp((2, 3), seed=1)), c.add("aten.linalg_cross.default", c.ramp((3, 2)), c.ramp((3, 1), seed=1), dim=0)
    c.add("aten.cross.default", c.ramp((3, 3, 2)), c.ramp((3, 3, 2), seed=1)), c.add("aten.cross.default", c.ramp((2, 3)), c.ramp((2, 3), seed=1), 1)
    einsum(c)
