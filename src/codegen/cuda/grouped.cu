/* grouped.cu: GROUPED_MATMUL (henry/abi/extern_abi.h): rows sorted by group, each group with a matrix of its own. Tiles,
 * threads and words as in matmul.cu. */
extern "C" __global__ void __launch_bounds__(256)
KERNEL(ELEMENT *__restrict__ out, const ELEMENT *__restrict__ a, const ELEMENT *__restrict__ b,
       const long long *__restrict__ ends, int *__restrict__ status, long long groups, long long M, long long N, long long K,
       long long am, long long ak, long long bg, long long bk, long long bn, long long constant) {
  __shared__ NUMBER of_a[16][66], of_b[16][66];
  const int thread = (int)threadIdx.x, row = thread / 16 * 4, column = thread % 16;
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
  NUMBER sums[4][4];
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) sums[i][j] = 0;
  for (long long k0 = 0; k0 < depth; k0 += 16) {
    for (int e = 0; e < 4; e++) { /* threads side by side read side by side */
      const int at = thread + 256 * e;
      const int m = ak == 1 ? at / 16 : at % 64, ka = ak == 1 ? at % 16 : at / 64;
      const int n = bk == 1 ? at / 16 : at % 64, kb = bk == 1 ? at % 16 : at / 64;
      of_a[ka][m] = m0 + m < end && k0 + ka < depth ? LOAD(a[(m0 + m) * am + (k0 + ka) * ak]) : (NUMBER)0;
      of_b[kb][n] = n0 + n < N && k0 + kb < depth ? LOAD(b[(k0 + kb) * bk + (n0 + n) * bn]) : (NUMBER)0;
    }
    __syncthreads();
    for (int k = 0; k < 16; k++)
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
          sums[i][j] = FMA(of_a[k][row + i], of_b[k][column + 16 * j], sums[i][j]);
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      const long long m = m0 + row + i, n = n0 + column + 16 * j;
      if (m < end && n < N) out[m * N + n] = STORE(sums[i][j]);
    }
}
