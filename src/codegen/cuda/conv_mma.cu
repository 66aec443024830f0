/* conv_mma.cu: conv.cu for 16-bit floats, by tensor cores; see matmul_mma.cu. Where the numbers of a slice of the sum
 * are, is worked out once for all places: how far a tap is from a place's first, and in which channel. */
extern "C" __global__ void __launch_bounds__(128)
KERNEL(ELEMENT *__restrict__ out, const ELEMENT *__restrict__ x, const ELEMENT *__restrict__ w,
       const ELEMENT *__restrict__ bias, const ELEMENT *__restrict__ residual, const ELEMENT *__restrict__ scale,
       int *__restrict__ status,
       long long images, long long channels, long long outputs, long long groups,
       long long in0, long long in1, long long in2, long long taps0, long long taps1, long long taps2,
       long long size0, long long size1, long long size2, long long step0, long long step1, long long step2,
       long long pad0, long long pad1, long long pad2, long long dil0, long long dil1, long long dil2,
       long long transposed,
       long long xn, long long xc, long long x0, long long x1, long long x2,
       long long wo, long long wc, long long w0, long long w1, long long w2,
       long long on, long long oo, long long o0, long long o1, long long o2,
       long long epilogue, long long constant,
       long long rn, long long ro, long long r0, long long r1, long long r2,
       long long scale_n, long long scale_c, long long scale_out) {
  enum { OUTSIDE = 1 << 30 }; /* of any image */
  __shared__ unsigned of_x[64][20], of_w[64][20]; /* pairs */
  __shared__ long long far_x[2][32], far_w[2][32];
  __shared__ int tap[2][32][3];
  ELEMENT *const to_x = (ELEMENT *)&of_x[0][0], *const to_w = (ELEMENT *)&of_w[0][0];
  const int thread = (int)threadIdx.x, g = thread % 32 / 4, t = thread % 4, row = thread / 64 * 32, column = thread / 32 % 2 * 32;
  const long long places = images * size0 * size1 * size2, each = outputs / groups;
  const long long down = (places + 63) / 64, across = (each + 63) / 64;
  long long tile = blockIdx.x;
  const long long m0 = tile % down * 64;
  tile /= down;
  const long long n0 = tile % across * 64, group = tile / across;
  const int depth = (int)(channels / groups), t2 = (int)taps2, t12 = (int)(taps1 * taps2), t012 = (int)taps0 * t12, K = depth * t012;
  /* the place that this thread gathers for */
  long long place = m0 + thread % 64;
  const bool is_place = place < places;
  const int p2 = (int)(place % size2 * step2 - pad2);
  place /= size2;
  const int p1 = (int)(place % size1 * step1 - pad1);
  place /= size1;
  const int p0 = (int)(place % size0 * step0 - pad0);
  const ELEMENT *const from = x + place / size0 * xn + group * depth * xc + p0 * x0 + p1 * x1 + p2 * x2;
  w += (group * each + n0 + thread / 32) * wo;
  const int each_left = each - n0 < 64 ? (int)(each - n0) : 64;
  float sums[2][4][4];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++)
      for (int c = 0; c < 4; c++) sums[i][j][c] = 0;
  ELEMENT next_x[16], next_w[16];
  for (int k0 = -32; k0 < K; k0 += 32) {
    const int turn = k0 / 32 & 1; /* the next slice's numbers do not wait for this one's */
    if (k0 >= 0)
#pragma unroll
      for (int e = 0; e < 16; e++) {
        const int at = thread + 128 * e;
        to_x[at % 64 * 40 + at / 64] = next_x[e];
        to_w[at / 32 * 40 + at % 32] = next_w[e];
      }
    if (thread < 32) {
      const int k = k0 + 32 + thread, c = k / t012, s = k % t012;
      const int y0 = s / t12 * (int)dil0, y1 = s % t12 / t2 * (int)dil1, y2 = s % t2 * (int)dil2;
      far_x[turn][thread] = c * xc + y0 * x0 + y1 * x1 + y2 * x2;
      far_w[turn][thread] = c * wc + s / t12 * w0 + s % t12 / t2 * w1 + s % t2 * w2;
      tap[turn][thread][0] = k < K ? y0 : OUTSIDE;
      tap[turn][thread][1] = y1;
      tap[turn][thread][2] = y2;
    }
    __syncthreads();
    const ELEMENT *const from_w = w + far_w[turn][thread % 32];
    const bool is_tap = tap[turn][thread % 32][0] != OUTSIDE;
#pragma unroll
    for (int e = 0; e < 16; e++) {
      const int k = thread / 64 + 2 * e, n = thread / 32 + 4 * e;
      const int y0 = p0 + tap[turn][k][0], y1 = p1 + tap[turn][k][1], y2 = p2 + tap[turn][k][2];
      const bool is_in = is_place && y0 >= 0 && y0 < in0 && y1 >= 0 && y1 < in1 && y2 >= 0 && y2 < in2;
      next_x[e] = is_in ? from[far_x[turn][k]] : (ELEMENT)0;
      next_w[e] = is_tap && n < each_left ? from_w[4 * e * wo] : (ELEMENT)0;
    }
    if (k0 < 0) continue;
#pragma unroll
    for (int k = 0; k < 16; k += 8) {
      unsigned u[2][4], v[4][2];
      for (int i = 0; i < 2; i++)
        for (int r = 0; r < 4; r++) u[i][r] = of_x[row + 16 * i + g + r % 2 * 8][k + t + r / 2 * 4];
      for (int j = 0; j < 4; j++)
        for (int r = 0; r < 2; r++) v[j][r] = of_w[column + 8 * j + g][k + t + r * 4];
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) MMA(sums[i][j], u[i], v[j]);
    }
    __syncthreads();
  }
