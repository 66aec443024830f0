/* matmul_mma.cu: matmul.cu for 16-bit floats, by tensor cores. 4 warps make 64 x 64 results, 32 x 32 a warp, in
 * pieces of 16 x 8; a warp's threads hold a piece as mma.m16n8k16 wants it: thread 4 g + t has rows g and g + 8, columns
 * 2 t and 2 t + 1. Both operands wait in shared memory with the sum's dimension inside; 8 numbers more than a row has
 * keep the 8 rows that a warp reads at a time from each other's banks. The next slice is on its way meanwhile. */
extern "C" __global__ void __launch_bounds__(128)
KERNEL(ELEMENT *__restrict__ out, const ELEMENT *__restrict__ a, const ELEMENT *__restrict__ b,
       const ELEMENT *__restrict__ bias, const ELEMENT *__restrict__ residual, int *__restrict__ status,
       long long s0, long long s1, long long s2, long long s3, long long M, long long N, long long K,
       long long a0, long long a1, long long a2, long long a3, long long am, long long ak,
       long long b0, long long b1, long long b2, long long b3, long long bk, long long bn,
       long long o0, long long o1, long long o2, long long o3, long long om, long long on,
       long long c0, long long c1, long long c2, long long c3, long long cm, long long cn,
       long long epilogue, long long constant,
       long long r0, long long r1, long long r2, long long r3, long long rm, long long rn) {
  __shared__ unsigned of_a[64][20], of_b[64][20]; /* pairs */
  ELEMENT *const to_a = (ELEMENT *)&of_a[0][0], *const to_b = (ELEMENT *)&of_b[0][0];
  const int thread = (int)threadIdx.x, g = thread % 32 / 4, t = thread % 4, row = thread / 64 * 32, column = thread / 32 % 2 * 32;
  const long long across = (N + 63) / 64, down = (M + 63) / 64;
  long long tile = blockIdx.x;
  const long long n0 = tile % across * 64;
  tile /= across;
  const long long m0 = tile % down * 64;
  tile /= down;
  const long long i3 = tile % s3;
  tile /= s3;
  const long long i2 = tile % s2;
  tile /= s2;
  const long long i1 = tile % s1, i0 = tile / s1;
  a += i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3;
  b += i0 * b0 + i1 * b1 + i2 * b2 + i3 * b3;
  float sums[2][4][4];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++)
      for (int c = 0; c < 4; c++) sums[i][j][c] = 0;
  /* threads side by side read side by side: of 16 numbers the first one, and from one to the next */
  const int a_row = ak == 1 ? thread / 32 : thread % 64, a_column = ak == 1 ? thread % 32 : thread / 64;
  const int b_row = bk == 1 ? thread / 32 : thread % 64, b_column = bk == 1 ? thread % 32 : thread / 64;
  const int a_down = ak == 1 ? 4 : 0, a_across = ak == 1 ? 0 : 2, b_down = bk == 1 ? 4 : 0, b_across = bk == 1 ? 0 : 2;
  const long long a_step = a_down * am + a_across * ak, b_step = b_down * bn + b_across * bk;
  const int a_rows = M - m0 < 64 ? (int)(M - m0) : 64, b_rows = N - n0 < 64 ? (int)(N - n0) : 64;
  a += (m0 + a_row) * am + a_column * ak;
  b += (n0 + b_row) * bn + b_column * bk;
  ELEMENT next_a[16], next_b[16];
  for (long long k0 = -32; k0 < K; k0 += 32) {
    if (k0 >= 0) {
#pragma unroll
      for (int e = 0; e < 16; e++) {
        to_a[(a_row + e * a_down) * 40 + a_column + e * a_across] = next_a[e];
        to_b[(b_row + e * b_down) * 40 + b_column + e * b_across] = next_b[e];
      }
      __syncthreads();
    }
    const int left = K - k0 - 32 < 32 ? (int)(K - k0 - 32) : 32;
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
  const long long at_out = i0 * o0 + i1 * o1 + i2 * o2 + i3 * o3, at_bias = i0 * c0 + i1 * c1 + i2 * c2 + i3 * c3,
                  at_residual = i0 * r0 + i1 * r1 + i2 * r2 + i3 * r3;
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int c = 0; c < 4; c++) {
        const long long m = m0 + row + 16 * i + g + c / 2 * 8, n = n0 + column + 8 * j + 2 * t + c % 2;
        if (m >= M || n >= N) continue;
        float x = sums[i][j][c];
        SUM(bias, at_bias + m * cm + n * cn)
        SUM_MORE(residual, at_residual + m * rm + n * rn)
        out[at_out + m * om + n * on] = STORE(FINISH(x));
      }
}
