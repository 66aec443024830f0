/* grouped_mma.cu: grouped.cu for 16-bit floats, by tensor cores. Tiles, threads and words as in matmul_mma.cu. */
extern "C" __global__ void __launch_bounds__(128)
KERNEL(ELEMENT *__restrict__ out, const ELEMENT *__restrict__ a, const ELEMENT *__restrict__ b,
       const long long *__restrict__ ends, int *__restrict__ status, long long groups, long long M, long long N, long long K,
       long long am, long long ak, long long bg, long long bk, long long bn, long long constant) {
  __shared__ unsigned of_a[64][20], of_b[64][20]; /* pairs */
  ELEMENT *const to_a = (ELEMENT *)&of_a[0][0], *const to_b = (ELEMENT *)&of_b[0][0];
  const int thread = (int)threadIdx.x, g = thread % 32 / 4, t = thread % 4, row = thread / 64 * 32, column = thread / 32 % 2 * 32;
  /* The tile of rows that this group has: of the groups of rows each has tiles of its own; rows behind the last end are
   * one without a matrix. There are groups for as many tiles as there can be. */
  const long long across = (N + 63) / 64, n0 = blockIdx.x % across * 64;
  long long tile = blockIdx.x / across, begin = 0, end = 0, group = 0;
  for (;; group++) {
    end = group < groups ? ends[group] : M;
    if (end < begin || end > M) {
      *status = 1;
      return;
    }
    const long long tiles = (end - begin + 63) / 64;
    if (tile < tiles) break;
    if (group == groups) return;
    tile -= tiles;
    begin = end;
  }
  const long long m0 = begin + tile * 64, depth = group < groups ? K : 0;
  b += group * bg;
  float sums[2][4][4];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++)
      for (int c = 0; c < 4; c++) sums[i][j][c] = 0;
  /* threads side by side read side by side: of 16 numbers the first one, and from one to the next */
  const int a_row = ak == 1 ? thread / 32 : thread % 64, a_column = ak == 1 ? thread % 32 : thread / 64;
  const int b_row = bk == 1 ? thread / 32 : thread % 64, b_column = bk == 1 ? thread % 32 : thread / 64;
  const int a_down = ak == 1 ? 4 : 0, a_across = ak == 1 ? 0 : 2, b_down = bk == 1 ? 4 : 0, b_across = bk == 1 ? 0 : 2;
  const long long a_step = a_down * am + a_across * ak, b_step = b_down * bn + b_across * bk;
  const int a_rows = end - m0 < 64 ? (int)(end - m0) : 64, b_rows = N - n0 < 64 ? (int)(N - n0) : 64;
  a += (m0 + a_row) * am + a_column * ak;
  b += (n0 + b_row) * bn + b_column * bk;
  ELEMENT next_a[16], next_b[16];
  for (long long k0 = -32; k0 < depth; k0 += 32) {
    if (k0 >= 0) {
#pragma unroll
      for (int e = 0; e < 16; e++) {
        to_a[(a_row + e * a_down) * 40 + a_column + e * a_across] = next_a[e];
        to_b[(b_row + e * b_down) * 40 + b_column + e * b_across] = next_b[e];
      }
      __syncthreads();
    }
    const int left = depth - k0 - 32 < 32 ? (int)(depth - k0 - 32) : 32;
#pragma unroll
    for (int e = 0; e < 16; e++) {
      next_a[e] = a_row + e * a_down < a_rows && a_column + e * a_across < left ? a[e * a_step] : (ELEMENT)0;
      next_b[e] = b_row + e * b_down < b_rows && b_column + e * b_across < left ? b[e * b_step] : (ELEMENT)0;
    }
    a += 32 * ak;
    b += 32 * bk;
    if (k0 < 0) continue;
#pragma unroll
    for (int k = 0; k < 16; k += 8) {
      unsigned x[2][4], y[4][2];
      for (int i = 0; i < 2; i++)
        for (int r = 0; r < 4; r++) x[i][r] = of_a[row + 16 * i + g + r % 2 * 8][k + t + r / 2 * 4];
      for (int j = 0; j < 4; j++)
        for (int r = 0; r < 2; r++) y[j][r] = of_b[column + 8 * j + g][k + t + r * 4];
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) MMA(sums[i][j], x[i], y[j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int c = 0; c < 4; c++) {
        const long long m = m0 + row + 16 * i + g + c / 2 * 8, n = n0 + column + 8 * j + 2 * t + c % 2;
        if (m < end && n < N) out[m * N + n] = STORE(sums[i][j][c]);
      }
}
