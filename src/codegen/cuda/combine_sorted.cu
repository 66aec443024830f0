/* combine_sorted.cu: COMBINE_SORTED (henry/abi/extern_abi.h) of single elements. A thread has a place of the result.
 * Places are sorted, so the values of each lie side by side in `order`: a search finds where they begin, those of the next
 * place are where they end. A thread combines its values one after the other. Where they are many, the lanes of its warp
 * read them, WIDE at a time, while it combines those that were read before. PLACE is the dtype of places, COMBINE(a, b)
 * what is done, rounded to the dtype; IS_SET: the last value stays; HAS_X: the result begins as x, else as 0. */
extern "C" __global__ void __launch_bounds__(256)
KERNEL(ELEMENT *__restrict__ out, const PLACE *__restrict__ places, const long long *__restrict__ order,
       const ELEMENT *__restrict__ values, const ELEMENT *__restrict__ x, int *__restrict__ status, long long count,
       long long columns, long long n, long long mode) {
  enum { THREADS = 256, MANY = 64, EACH = 8, WIDE = 32 * EACH };
  __shared__ long long begins[THREADS + 1];
  const int t = (int)threadIdx.x;
  const long long place = (long long)blockIdx.x * THREADS + t;
  for (int round = 0; round < 2; round++) { /* the ends of the group, then what lies between */
    const bool searches = round ? t > 0 : t < 2;
    const int own = round ? t : t * THREADS;
    long long low = round ? begins[0] : 0, high = round ? begins[THREADS] : n;
    while (searches && low < high) {
      const long long middle = low + (high - low) / 2;
      if ((long long)places[middle] < place - t + own) low = middle + 1;
      else high = middle;
    }
    if (searches) begins[own] = low;
    __syncthreads();
  }
  const long long begin = begins[t], end = begins[t + 1];
  NUMBER sum = 0;
#if HAS_X
  if (place < count) sum = LOAD(x[place]);
#endif
#if IS_SET
  if (end > begin) sum = values[order[end - 1]];
#else
  __shared__ ELEMENT tiles[THREADS / 32][WIDE];
  const int lane = t % 32, warp = t / 32;
  const bool has_many = end - begin > MANY;
  if (!has_many) {
#pragma unroll 4
    for (long long j = begin; j < end; j++) sum = COMBINE(sum, LOAD(values[order[j]]));
  }
  unsigned many = __ballot_sync(0xffffffffu, has_many);
  while (many) {
    const int owner = __ffs((int)many) - 1;
    const long long first = begins[t - lane + owner], last = begins[t - lane + owner + 1];
    many &= many - 1;
    for (long long j = first - WIDE; j < last; j += WIDE) { /* values from j on are in the tile, if there are any */
      const int count_here = j < first ? 0 : last - j < WIDE ? (int)(last - j) : WIDE;
      ELEMENT next[EACH];
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        const long long at = j + WIDE + e * 32 + lane;
        next[e] = at < last ? values[order[at]] : (ELEMENT)0;
      }
      if (lane == owner) {
#pragma unroll 8
        for (int k = 0; k < count_here; k++) sum = COMBINE(sum, LOAD(tiles[warp][k]));
      }
      __syncwarp();
#pragma unroll
      for (int e = 0; e < EACH; e++) tiles[warp][e * 32 + lane] = next[e];
      __syncwarp();
    }
  }
#endif
  if (place < count) out[place] = STORE(sum);
}
