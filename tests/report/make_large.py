"""A graph of many small kernels, as text: each node reads its neighbour and one some nodes before. With --no-fusion most are a kernel.

    make_large.py COUNT [distinct] >large.hnir        distinct: each fourth node has a number of its own, and its kernel another text
"""

import sys


def text(count, is_distinct=False):
    lines = ["graph @large {", '  input user %v0 : f32[64, 48] "x"']
    for k in range(1, count + 1):
        other = max(0, k - 1 - k % 7 * (5 if k % 50 else 40))
        if is_distinct and k % 4 == 3:
            lines.append(f"  %v{k} = aten.mul.Scalar(%v{k - 1}, {1 + k / 65536}) : f32[64, 48] at \"node_{k}\" \"model.py:{k}\"")
            continue
        lines.append(f"  %v{k} = {('add', 'max', 'mul', 'min')[k % 4]}(%v{k - 1}, %v{other}) at \"node_{k}\" \"model.py:{k}\"")
    return "\n".join(lines + [f'  output user %v{count} "y"', "}", ""])


if __name__ == "__main__":
    print(text(int(sys.argv[1]), "distinct" in sys.argv[2:]), end="")
