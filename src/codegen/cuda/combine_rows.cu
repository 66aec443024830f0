/* combine_rows.cu: COMBINE_SORTED (henry/abi/extern_abi.h) of rows. A warp has a row of the result, and finds its values as
 * combine_sorted.cu does. A lane has EACH columns at a time, 32 apart: a strip of the row. A row of many values is shared:
 * each warp of the group takes other strips of it, and a lane reads AT_ONCE values before it combines them. Words as
 * there. Without a number of groups ptxas 13.0 takes few registers for sm_120, and spills some. */
extern "C" __global__ void __launch_bounds__(256, 4)
KERNEL(ELEMENT *__restrict__ out, const PLACE *__restrict__ places, const long long *__restrict__ order,
       const ELEMENT *__restrict__ values, const ELEMENT *__restrict__ x, int *__restrict__ status, long long count,
       long long columns, long long n, long long mode) {
  enum { WARPS = 8, EACH = 4, STRIP = 32 * EACH, MANY = 64, AT_ONCE = sizeof(ELEMENT) > 4 ? 4 : 8 };
  __shared__ long long begins[WARPS + 1];
  const int t = (int)threadIdx.x, lane = t % 32, warp = t / 32;
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
  for (int r = 0; r < WARPS; r++) {
    const long long row = (long long)blockIdx.x * WARPS + r, end = begins[r + 1];
#if IS_SET
    const long long begin = end > begins[r] ? end - 1 : end; /* the last one alone */
#else
    const long long begin = begins[r];
#endif
    const bool is_shared = end - begin > MANY;
    if (row >= count || (!is_shared && r != warp)) continue;
    for (long long strip = is_shared ? warp * STRIP : 0; strip < columns; strip += is_shared ? WARPS * STRIP : STRIP) {
      const long long first = strip + lane;
      NUMBER sums[EACH];
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        sums[e] = 0;
#if HAS_X
        if (first + 32 * e < columns) sums[e] = LOAD(x[row * columns + first + 32 * e]);
#endif
      }
      long long j = begin;
      for (; end - j >= AT_ONCE && is_shared; j += AT_ONCE) {
        ELEMENT read[AT_ONCE][EACH];
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++) {
          const ELEMENT *from = values + order[j + a] * columns + first;
#pragma unroll
          for (int e = 0; e < EACH; e++) read[a][e] = first + 32 * e < columns ? from[32 * e] : (ELEMENT)0;
        }
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++)
#pragma unroll
          for (int e = 0; e < EACH; e++) sums[e] = COMBINE(sums[e], LOAD(read[a][e]));
      }
#pragma unroll 2
      for (; j < end; j++) {
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
}
