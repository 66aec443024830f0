/* combine_rows.cu: COMBINE_SORTED (henry/abi/extern_abi.h) of rows. A warp has a row of the result, and finds its values as
 * combine_sorted.cu does. A lane has EACH columns at a time, 32 apart. Words as there. */
extern "C" __global__ void __launch_bounds__(256)
KERNEL(ELEMENT *__restrict__ out, const PLACE *__restrict__ places, const long long *__restrict__ order,
       const ELEMENT *__restrict__ values, const ELEMENT *__restrict__ x, int *__restrict__ status, long long count,
       long long columns, long long n, long long mode) {
  enum { WARPS = 8, EACH = 4, WIDE = 32 * EACH };
  __shared__ long long begins[WARPS + 1];
  const int t = (int)threadIdx.x, lane = t % 32, warp = t / 32;
  const long long row = (long long)blockIdx.x * WARPS + warp;
  if (t <= WARPS) {
    long long low = 0, high = n;
    while (low < high) {
      const long long middle = low + (high - low) / 2;
      if ((long long)places[middle] < (long long)blockIdx.x * WARPS + t) low = middle + 1;
      else high = middle;
    }
    begins[t] = low;
  }
  __syncthreads();
  const long long end = begins[warp + 1];
#if IS_SET
  const long long begin = end > begins[warp] ? end - 1 : end; /* the last one alone */
#else
  const long long begin = begins[warp];
#endif
  if (row >= count) return;
  for (long long first = lane; first < columns; first += WIDE) {
    NUMBER sums[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      sums[e] = 0;
#if HAS_X
      if (first + 32 * e < columns) sums[e] = LOAD(x[row * columns + first + 32 * e]);
#endif
    }
#pragma unroll 2
    for (long long j = begin; j < end; j++) {
      const ELEMENT *from = values + order[j] * columns + first;
#pragma unroll
      for (int e = 0; e < EACH; e++)
        if (first + 32 * e < columns) sums[e] = COMBINE(sums[e], LOAD(from[32 * e]));
    }
#pragma unroll
    for (int e = 0; e < EACH; e++)
      if (first + 32 * e < columns) out[row * columns + first + 32 * e] = STORE(sums[e]);
  }
}
