/* sort_count.cu: SORT and TOPK of long rows go over the digits of the keys, from the last one, as on the CPU: for each
 * digit of 8 bits this kernel, sort_scan.cu and sort_scatter.cu. This one counts how often each digit occurs in a tile
 * of 4096 elements of a row. Keys of the first digit are made from x; those of others are where the digit before has
 * left them, in one half of the workspace by turns. The workspace: keys, 2 * rows * n; their places, as many; counts
 * by row, tile and digit; counts by row and digit. */
extern "C" __global__ void __launch_bounds__(256)
KERNEL(const WORD *__restrict__ x, unsigned char *__restrict__ workspace, int *__restrict__ status,
       long long rows, long long n, long long inner, long long k, long long descending, long long shift) {
  enum { TILE = 4096, THREADS = 256 };
  __shared__ unsigned found[256];
  const int t = (int)threadIdx.x;
  const long long tiles = (n + TILE - 1) / TILE, row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const long long begin = row / inner * n * inner + row % inner, items = rows * n;
  const KEY *keys = (const KEY *)workspace + (shift / 8 % 2 ? 0 : items) + row * n;
  unsigned *counts = (unsigned *)(workspace + 2 * items * (long long)(sizeof(KEY) + 4));
  const KEY flip = descending ? ALL : 0;
  if (n > 0xffffffffll) *status = 1; /* places have 32 bits */
  found[t] = 0;
  __syncthreads();
  KEY own[TILE / THREADS]; /* all on their way, before the first is counted */
#pragma unroll
  for (int e = 0; e < TILE / THREADS; e++) {
    const long long j = tile * TILE + e * THREADS + t;
    own[e] = 0;
    if (j >= n) continue;
    if (shift) {
      own[e] = keys[j];
    } else {
      const WORD word = x[begin + j * inner];
      own[e] = KEY_OF(word) ^ flip;
    }
  }
#pragma unroll
  for (int e = 0; e < TILE / THREADS; e++)
    if (tile * TILE + e * THREADS + t < n) atomicAdd(&found[own[e] >> shift & 255], 1u);
  __syncthreads();
  counts[blockIdx.x * 256ll + t] = found[t];
}
