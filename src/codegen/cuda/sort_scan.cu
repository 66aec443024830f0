/* sort_scan.cu: of the counts that sort_count.cu has left, sums of the tiles before, and at the end the sum of the whole
 * row. A group has 32 digits of a row; each of its warps goes over an eighth of the tiles. */
extern "C" __global__ void __launch_bounds__(256)
KERNEL(unsigned char *__restrict__ workspace, int *__restrict__ status, long long rows, long long n) {
  enum { TILE = 4096, WARPS = 8 };
  __shared__ unsigned sums[WARPS][32];
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  const long long tiles = (n + TILE - 1) / TILE, each = (tiles + WARPS - 1) / WARPS;
  const long long row = blockIdx.x / 8, digit = blockIdx.x % 8 * 32 + lane;
  unsigned *counts = (unsigned *)(workspace + 2 * rows * n * (long long)(sizeof(KEY) + 4));
  unsigned *totals = counts + rows * tiles * 256 + row * 256 + digit;
  counts += row * tiles * 256 + digit;
  const long long from = warp * each < tiles ? warp * each : tiles, to = from + each < tiles ? from + each : tiles;
  unsigned sum = 0;
#pragma unroll 8
  for (long long tile = from; tile < to; tile++) sum += counts[tile * 256];
  sums[warp][lane] = sum;
  __syncthreads();
  unsigned before = 0;
  for (int w = 0; w < warp; w++) before += sums[w][lane];
  if (warp == WARPS - 1) *totals = before + sum;
#pragma unroll 8
  for (long long tile = from; tile < to; tile++) {
    const unsigned own = counts[tile * 256];
    counts[tile * 256] = before;
    before += own;
  }
}
