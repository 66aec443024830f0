/* matmul.cu: MATMUL (henry/abi/extern_abi.h), where no library does it: any strides, batches, sums and
 * function behind. A group of 16 x 16 threads makes 64 x 64 results, 4 x 4 a thread; slices of a and b of
 * 16 numbers wait in shared memory. Text of one kernel: operations.c says what ELEMENT (in memory), NUMBER
 * (of sums), LOAD, STORE, FMA, SUM (bias and residual) and FINISH are. Two numbers more than a row has keep
 * threads that read a column from the same bank. */
extern "C" __global__ void __launch_bounds__(256)
KERNEL(ELEMENT *__restrict__ out, const ELEMENT *__restrict__ a, const ELEMENT *__restrict__ b,
       const ELEMENT *__restrict__ bias, const ELEMENT *__restrict__ residual, int *__restrict__ status,
       long long s0, long long s1, long long s2, long long s3, long long M, long long N, long long K,
       long long a0, long long a1, long long a2, long long a3, long long am, long long ak,
       long long b0, long long b1, long long b2, long long b3, long long bk, long long bn,
       long long o0, long long o1, long long o2, long long o3, long long om, long long on,
       long long c0, long long c1, long long c2, long long c3, long long cm, long long cn,
       long long epilogue, long long constant,
       long long r0, long long r1, long long r2, long long r3, long long rm, long long rn) {
  __shared__ NUMBER of_a[16][66], of_b[16][66];
  const int thread = (int)threadIdx.x, row = thread / 16 * 4, column = thread % 16;
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
  NUMBER sums[4][4];
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) sums[i][j] = 0;
  for (long long k0 = 0; k0 < K; k0 += 16) {
    for (int e = 0; e < 4; e++) { /* threads side by side read side by side */
      const int at = thread + 256 * e;
      const int m = ak == 1 ? at / 16 : at % 64, ka = ak == 1 ? at % 16 : at / 64;
      const int n = bk == 1 ? at / 16 : at % 64, kb = bk == 1 ? at % 16 : at / 64;
      of_a[ka][m] = m0 + m < M && k0 + ka < K ? LOAD(a[(m0 + m) * am + (k0 + ka) * ak]) : (NUMBER)0;
      of_b[kb][n] = n0 + n < N && k0 + kb < K ? LOAD(b[(k0 + kb) * bk + (n0 + n) * bn]) : (NUMBER)0;
    }
    __syncthreads();
    for (int k = 0; k < 16; k++)
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
          sums[i][j] = FMA(of_a[k][row + i], of_b[k][column + 16 * j], sums[i][j]);
    __syncthreads();
  }
  const long long at_out = i0 * o0 + i1 * o1 + i2 * o2 + i3 * o3, at_bias = i0 * c0 + i1 * c1 + i2 * c2 + i3 * c3,
                  at_residual = i0 * r0 + i1 * r1 + i2 * r2 + i3 * r3;
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      const long long m = m0 + row + i, n = n0 + column + 16 * j;
      if (m >= M || n >= N) continue;
      NUMBER x = sums[i][j];
      SUM(bias, at_bias + m * cm + n * cn)
      SUM_MORE(residual, at_residual + m * rm + n * rn)
      out[at_out + m * om + n * on] = STORE(FINISH(x));
    }
}
