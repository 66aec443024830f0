/* sort_scatter.cu: brings the elements of a tile to their places by one digit, in the order that they had. The place of
 * one is: elements of smaller digits in the row, those of the same digit in tiles before (sort_scan.cu), in warps
 * before, in rounds of the warp before, and in lanes before. The last digit writes the results. Workspace and arguments
 * as in sort_count.cu. */
extern "C" __global__ void __launch_bounds__(512)
KERNEL(WORD *__restrict__ values, long long *__restrict__ indices, const WORD *__restrict__ x,
       unsigned char *__restrict__ workspace, int *__restrict__ status,
       long long rows, long long n, long long inner, long long k, long long descending, long long shift) {
  enum { TILE = 4096, THREADS = 512, WARPS = THREADS / 32, ROUNDS = TILE / THREADS, DIGITS = 256 };
  __shared__ unsigned begins[WARPS][DIGITS], sums[DIGITS];
  const int t = (int)threadIdx.x, lane = t % 32, warp = t / 32;
  const long long tiles = (n + TILE - 1) / TILE, row = blockIdx.x / tiles, tile = blockIdx.x % tiles, items = rows * n;
  const long long begin = row / inner * n * inner + row % inner, begin_out = row / inner * k * inner + row % inner;
  const bool is_odd = shift / 8 % 2, is_last = shift + 8 == BITS;
  KEY *keys = (KEY *)workspace + row * n;
  unsigned *places = (unsigned *)((KEY *)workspace + 2 * items) + row * n;
  const KEY *keys_in = keys + (is_odd ? 0 : items);
  const unsigned *places_in = places + (is_odd ? 0 : items);
  KEY *keys_out = keys + (is_odd ? items : 0);
  unsigned *places_out = places + (is_odd ? items : 0);
  const unsigned *counts = (const unsigned *)(workspace + 2 * items * (long long)(sizeof(KEY) + 4));
  const KEY flip = descending ? ALL : 0;
  KEY key[ROUNDS];
  unsigned rank[ROUNDS];
  const bool has_digit = t < DIGITS;
  for (int w = 0; w < WARPS && has_digit; w++) begins[w][t] = 0;
  const unsigned total = has_digit ? counts[(rows * tiles + row) * DIGITS + t] : 0;
  if (has_digit) sums[t] = total;
  __syncthreads();
  for (int step = 1; step < DIGITS; step *= 2) { /* elements of this digit and smaller ones */
    const unsigned more = has_digit && t >= step ? sums[t - step] : 0;
    __syncthreads();
    if (has_digit) sums[t] += more;
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < ROUNDS; r++) {
    const long long j = tile * TILE + warp * (TILE / WARPS) + r * 32 + lane;
    key[r] = 0;
    if (j < n) {
      if (shift) {
        key[r] = keys_in[j];
      } else {
        const WORD word = x[begin + j * inner];
        key[r] = KEY_OF(word) ^ flip;
      }
    }
    const unsigned digit = j < n ? (unsigned)(key[r] >> shift & 255) : DIGITS;
    const unsigned peers = __match_any_sync(0xffffffffu, digit), before = peers & ((1u << lane) - 1);
    const unsigned so_far = j < n ? begins[warp][digit] : 0;
    rank[r] = so_far + __popc(before);
    __syncwarp();
    if (!before && j < n) begins[warp][digit] = so_far + __popc(peers);
    __syncwarp();
  }
  __syncthreads();
  unsigned at = has_digit ? sums[t] - total + counts[blockIdx.x * 256ll + t] : 0;
  for (int w = 0; w < WARPS && has_digit; w++) {
    const unsigned own = begins[w][t];
    begins[w][t] = at;
    at += own;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < ROUNDS; r++) {
    const long long j = tile * TILE + warp * (TILE / WARPS) + r * 32 + lane;
    if (j >= n) continue;
    const long long to = begins[warp][key[r] >> shift & 255] + (long long)rank[r];
    const unsigned place = shift ? places_in[j] : (unsigned)j;
    if (!is_last) {
      keys_out[to] = key[r];
      places_out[to] = place;
    } else if (to < k) {
      values[begin_out + to * inner] = x[begin + place * inner];
      indices[begin_out + to * inner] = place;
    }
  }
}
