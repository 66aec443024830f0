/* nms_overlaps.cu: NMS (henry/abi/extern_abi.h) is this kernel and nms_keep.cu. Bit j of a row i of the workspace, which
 * has words of 64 bits: box j lies behind box i and overlaps it by more than the threshold. A group has 64 boxes of
 * each. The order of operations is that of the CPU (ops/cpu/sort/nms.c), and nothing is contracted: whether a ratio
 * exceeds the threshold depends on it. NUMBER, MUL: select.c. */
extern "C" __global__ void __launch_bounds__(64)
KERNEL(const NUMBER *__restrict__ boxes, unsigned long long *__restrict__ overlaps, int *__restrict__ status,
       long long n, long long threshold_bits) {
  enum { EACH = 64 };
  __shared__ NUMBER x1[EACH], y1[EACH], x2[EACH], y2[EACH];
  const int t = (int)threadIdx.x;
  const long long across = (n + EACH - 1) / EACH, row = blockIdx.x / across, column = blockIdx.x % across;
  const long long i = row * EACH + t, first = column * EACH;
  const int count = n - first < EACH ? (int)(n - first) : EACH;
  const double threshold = __longlong_as_double(threshold_bits);
  if (column < row) return; /* nobody asks for boxes before */
  if (t < count) {
    const NUMBER *box = boxes + (first + t) * 4;
    x1[t] = box[0], y1[t] = box[1], x2[t] = box[2], y2[t] = box[3];
  }
  __syncthreads();
  if (i >= n) return;
  const NUMBER l = boxes[4 * i], u = boxes[4 * i + 1], r = boxes[4 * i + 2], d = boxes[4 * i + 3];
  const NUMBER own = MUL(r - l, d - u);
  unsigned long long bits = 0;
  for (int j = 0; j < count; j++) {
    const NUMBER left = l < x1[j] ? x1[j] : l, top = u < y1[j] ? y1[j] : u;
    const NUMBER right = x2[j] < r ? x2[j] : r, bottom = y2[j] < d ? y2[j] : d;
    const NUMBER w = right - left, h = bottom - top;
    const NUMBER common = MUL(w > 0 ? w : 0, h > 0 ? h : 0);
    const NUMBER ratio = common / (own + MUL(x2[j] - x1[j], y2[j] - y1[j]) - common);
    if (first + j > i && (double)ratio > threshold) bits |= 1ull << j;
  }
  overlaps[i * across + column] = bits;
}
