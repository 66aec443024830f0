"""fit_math.py: least-maximum-error polynomials for the vector functions of generated C kernels.

Prints coefficients (lowest power first) and the largest relative error that single precision evaluation
shows on a dense sample. Needs numpy. The kernels' copies are in src/codegen/math.def."""
import math

import numpy as np


def fit(function, low, high, degree, weight=lambda x: 1.0 / np.maximum(np.abs(x), 1e-300), rounds=60):
    """Lawson-weighted least squares: close to minimax in the norm |error| * weight(function)."""
    k = np.arange(4000)
    x = (low + high) / 2 + (high - low) / 2 * np.cos((2 * k + 1) * np.pi / 8000)
    y = np.array([function(v) for v in x])
    scale = weight(y)
    lawson = np.ones_like(x)
    basis = np.vander(x, degree + 1, increasing=True)
    for _ in range(rounds):
        w = np.sqrt(lawson) * scale
        coefficients = np.linalg.lstsq(basis * w[:, None], y * w, rcond=None)[0]
        error = np.abs((basis @ coefficients - y) * scale)
        lawson *= error / error.max() + 1e-3
        lawson /= lawson.sum()
    return coefficients, error.max()


def fit_ratio(function, low, high, top, bottom, rounds=80):
    """P/Q with Q(0) = 1: weighted least squares of P - y Q, reweighted by 1/Q and towards equal errors."""
    k = np.arange(6000)
    x = (low + high) / 2 + (high - low) / 2 * np.cos((2 * k + 1) * np.pi / 12000)
    y = np.array([function(v) for v in x])
    q, lawson, best = np.ones_like(x), np.ones_like(x), None
    for _ in range(rounds):
        w = np.sqrt(lawson) / np.abs(y * q)
        basis = np.hstack([np.vander(x, top + 1, increasing=True), -np.vander(x, bottom + 1, increasing=True)[:, 1:] * y[:, None]])
        c = np.linalg.lstsq(basis * w[:, None], y * w, rcond=None)[0]
        p_c, q_c = c[: top + 1], np.concatenate([[1], c[top + 1 :]])
        q = np.polyval(q_c[::-1], x)
        error = np.abs((np.polyval(p_c[::-1], x) / q - y) / y)
        if best is None or error.max() < best[2]:
            best = (p_c, q_c, error.max())
        lawson *= error / error.max() + 1e-3
        lawson /= lawson.sum()
    return best


def show_ratio(name, result):
    show(name + " above", (result[0], result[2]))
    show(name + " below", (result[1], result[2]))


def show(name, result):
    coefficients, error = result
    print(f"{name}: error {error:.2e}")
    print("   ", ", ".join(f"{c:.9e}" for c in coefficients))


if __name__ == "__main__":
    ln2 = math.log(2)
    # exp(r) = 1 + r + r^2 * P(r), |r| <= ln2/2
    show("exp", fit(lambda r: (math.expm1(r) - r) / r**2 if abs(r) > 1e-4 else 0.5 + r / 6 + r * r / 24, -ln2 / 2 * 1.01, ln2 / 2 * 1.01, 5))
    # log(1+f) = f - f^2/2 + f^3 * P(f), sqrt(1/2)-1 <= f <= sqrt(2)-1
    def log_tail(f):
        if abs(f) < 1e-3:
            return 1 / 3 - f / 4 + f * f / 5 - f**3 / 6
        return (math.log1p(f) - f + f * f / 2) / f**3
    show("log", fit(log_tail, math.sqrt(0.5) - 1, math.sqrt(2) - 1, 8))
    # erf(x) = x P(t)/Q(t), tanh(x) = x P(t)/Q(t), t = x^2
    show_ratio("erf", fit_ratio(lambda t: math.erf(math.sqrt(t)) / math.sqrt(t) if t > 1e-14 else 2 / math.sqrt(math.pi), 0, 3.95**2, 5, 5))
    show_ratio("tanh", fit_ratio(lambda t: math.tanh(math.sqrt(t)) / math.sqrt(t) if t > 1e-14 else 1.0, 0, 81.0, 4, 4))
    # sin(r) = r + r^3 * P(r^2), cos(r) = 1 - r^2/2 + r^4 * Q(r^2), |r| <= pi/4
    limit = (math.pi / 4 * 1.01) ** 2
    show("sin", fit(lambda t: (math.sin(math.sqrt(t)) - math.sqrt(t)) / math.sqrt(t)**3 if t > 1e-4 else -1 / 6 + t / 120, 0, limit, 3))
    show("cos", fit(lambda t: (math.cos(math.sqrt(t)) - 1 + t / 2) / t**2 if t > 1e-3 else 1 / 24 - t / 720 + t * t / 40320, 0, limit, 3))
