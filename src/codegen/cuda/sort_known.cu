/* sort_known.cu: as sort_rows.cu, of rows that lie side by side and whose length is known: a row is WIDTH elements, a
 * power of two, and a thread has EACH of them in registers. WIDTH / EACH neighbours have a row. Batcher's network goes over
 * the elements of a thread, then over those of lanes by shuffles, and over those of warps through shared memory. Each
 * merge begins with the mirror of one of its halves, so that the smaller of two elements always goes to the smaller
 * index. The key and the place of an element are one number. Elements are read side by side, in no order that matters:
 * the network looks at places only where keys are equal. Without a number of groups ptxas 13.0 takes few registers, and
 * spills one. */
extern "C" __global__ void __launch_bounds__(256, 2)
KERNEL(WORD *__restrict__ values, long long *__restrict__ indices, const WORD *__restrict__ x, int *__restrict__ status,
       long long outer, long long n, long long inner, long long k, long long descending, long long stable) {
#if BITS == 32
  typedef unsigned long long item;
#else
  typedef unsigned item;
#endif
  enum { THREADS = 256, LANES = WIDTH / EACH, ROOM = THREADS / LANES, PLACE_BITS = 12, STEPS_MOST = 4 };
  __shared__ item others[LANES > 32 ? THREADS * EACH : 1];
  __shared__ unsigned short places[THREADS * EACH];
  const int t = (int)threadIdx.x, r = t / LANES, lane = t % LANES;
  const long long rows = outer, row = (long long)blockIdx.x * ROOM + r;
  const KEY flip = descending ? ALL : 0;
  item own[EACH];
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int j = e * LANES + lane;
    KEY key = ALL; /* behind all of the row, by its place */
    if (j < n && row < rows) {
      const WORD word = x[row * n + j];
      key = KEY_OF(word) ^ flip;
    }
    own[e] = (item)key << PLACE_BITS | (unsigned)j;
  }
  auto order = [&](int mask) { /* elements of the thread whose numbers differ by the mask */
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const int f = e ^ mask;
      if (f <= e || f >= EACH) continue;
      const item a = own[e], b = own[f];
      own[e] = b < a ? b : a;
      own[f] = b < a ? a : b;
    }
  };
  auto order_lanes = [&](int mask, bool is_lower, bool is_mirrored) { /* of two threads */
    if (LANES > 32 && mask >= 32) {
#pragma unroll
      for (int e = 0; e < EACH; e++) others[e * THREADS + t] = own[e];
      __syncthreads();
    }
    item got[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const int f = is_mirrored ? EACH - 1 - e : e;
      if (LANES > 32 && mask >= 32) got[e] = others[f * THREADS + (t ^ mask)];
      else got[e] = __shfl_xor_sync(0xffffffffu, own[f], mask);
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) own[e] = (got[e] < own[e]) == is_lower ? got[e] : own[e];
    if (LANES > 32 && mask >= 32) __syncthreads();
  };
#pragma unroll
  for (int size = 0; size < STEPS_MOST; size++) {
#pragma unroll
    for (int step = STEPS_MOST - 1; step >= 0; step--)
      if (step <= size && 1 << size < EACH) order(step == size ? (2 << step) - 1 : 1 << step);
  }
#pragma unroll 1
  for (int lanes = 2; lanes <= LANES; lanes *= 2) {
    order_lanes(lanes - 1, !(lane & lanes / 2), true);
#pragma unroll 1
    for (int step = lanes / 4; step; step /= 2) order_lanes(step, !(lane & step), false);
#pragma unroll
    for (int step = STEPS_MOST - 1; step >= 0; step--)
      if (1 << step < EACH) order(1 << step);
  }
#pragma unroll
  for (int e = 0; e < EACH; e++)
    places[r * WIDTH + lane * EACH + e] = (unsigned short)(own[e] & ((1u << PLACE_BITS) - 1));
  __syncthreads();
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int j = e * LANES + lane;
    if (j >= k || j >= n || row >= rows) continue;
    const unsigned place = places[r * WIDTH + j];
    values[row * k + j] = x[row * n + place];
    indices[row * k + j] = place;
  }
}
