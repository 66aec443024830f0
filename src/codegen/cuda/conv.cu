/* conv.cu: CONV (henry/abi/extern_abi.h), not transposed, as a product of gathered tiles: its rows are places of
 * the result, in all images, its columns output channels of one group, and it sums over input channels and taps.
 * Threads and words as in matmul.cu; neighbours are places, which lie side by side in most layouts. */
extern "C" __global__ void __launch_bounds__(256)
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
  __shared__ NUMBER of_x[16][66], of_w[16][66];
  const int thread = (int)threadIdx.x, row = thread % 16, column = thread / 16 * 4;
  const long long places = images * size0 * size1 * size2, each = outputs / groups;
  const long long down = (places + 63) / 64, across = (each + 63) / 64;
  long long tile = blockIdx.x;
  const long long m0 = tile % down * 64;
  tile /= down;
  const long long n0 = tile % across * 64, group = tile / across;
  const unsigned depth = (unsigned)(channels / groups), t2 = (unsigned)taps2, t12 = (unsigned)(taps1 * taps2),
                 t012 = (unsigned)taps0 * t12, K = depth * t012;
  /* the place that this thread gathers for */
  long long place = m0 + thread % 64;
  const bool is_place = place < places;
  const long long p2 = place % size2 * step2 - pad2;
  place /= size2;
  const long long p1 = place % size1 * step1 - pad1;
  place /= size1;
  const long long p0 = place % size0 * step0 - pad0;
  const ELEMENT *from = x + place / size0 * xn + group * depth * xc;
  w += (group * each + n0) * wo;
  NUMBER sums[4][4];
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) sums[i][j] = 0;
  for (unsigned k0 = 0; k0 < K; k0 += 16) {
    for (int e = 0; e < 4; e++) {
      const unsigned kx = (unsigned)(thread / 64 + 4 * e), k = k0 + kx, c = k / t012, t = k % t012;
      const long long y0 = p0 + t / t12 * dil0, y1 = p1 + t % t12 / t2 * dil1, y2 = p2 + t % t2 * dil2;
      const bool is_in = is_place && k < K && y0 >= 0 && y0 < in0 && y1 >= 0 && y1 < in1 && y2 >= 0 && y2 < in2;
      of_x[kx][thread % 64] = is_in ? LOAD(from[c * xc + y0 * x0 + y1 * x1 + y2 * x2]) : (NUMBER)0;
      const unsigned kw = (unsigned)thread % 16, n = (unsigned)(thread / 16 + 16 * e), l = k0 + kw;
      const unsigned d = l / t012, s = l % t012;
      of_w[kw][n] = n0 + n < each && l < K
                        ? LOAD(w[n * wo + d * wc + s / t12 * w0 + s % t12 / t2 * w1 + s % t2 * w2])
                        : (NUMBER)0;
    }
    __syncthreads();
    for (int k = 0; k < 16; k++)
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
          sums[i][j] = FMA(of_x[k][row + 16 * i], of_w[k][column + j], sums[i][j]);
    __syncthreads();
  }
  for (int i = 0; i < 4; i++) {
    long long at = m0 + row + 16 * i;
    if (at >= places) continue;
    const long long q2 = at % size2;
    at /= size2;
    const long long q1 = at % size1;
    at /= size1;
    const long long q0 = at % size0, n = at / size0;
    for (int j = 0; j < 4; j++) {
      if (n0 + column + j >= each) continue;
      const long long o = group * each + n0 + column + j;
      NUMBER x = sums[i][j];
      SUM(bias, o)
      SUM_MORE(residual, n * rn + o * ro + q0 * r0 + q1 * r1 + q2 * r2)
      out[n * on + o * oo + q0 * o0 + q1 * o1 + q2 * o2] = STORE(FINISH(x));
    }
  }
}
