/* conv_last_mma.cu: conv_mma.cu for channels that lie side by side, in x and in w, in eights: the sum runs over the taps
 * and, inside, over channels, and a thread gathers 8 channels of a tap at a time, for two places and two outputs. */
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
  struct alignas(16) eight { unsigned pairs[4]; };
  alignas(16) __shared__ unsigned of_x[64][20], of_w[64][20]; /* pairs */
  const int thread = (int)threadIdx.x, g = thread % 32 / 4, t = thread % 4, row = thread / 64 * 32, column = thread / 32 % 2 * 32;
  const long long places = images * size0 * size1 * size2, each = outputs / groups;
  const long long down = (places + 63) / 64, across = (each + 63) / 64;
  long long tile = blockIdx.x;
  const long long m0 = tile % down * 64;
  tile /= down;
  const long long n0 = tile % across * 64, group = tile / across;
  const unsigned depth = (unsigned)(channels / groups), t2 = (unsigned)taps2, t12 = (unsigned)(taps1 * taps2);
  const int K = (int)(depth * (unsigned)taps0 * t12);
  /* what this thread gathers for: rows thread / 4 and 32 more */
  int p0[2], p1[2], p2[2];
  bool is_place[2], is_output[2];
  const ELEMENT *from[2], *from_w[2];
  for (int e = 0; e < 2; e++) {
    long long place = m0 + thread / 4 + 32 * e;
    const long long o = n0 + thread / 4 + 32 * e;
    is_place[e] = place < places;
    is_output[e] = o < each;
    p2[e] = (int)(place % size2 * step2 - pad2);
    place /= size2;
    p1[e] = (int)(place % size1 * step1 - pad1);
    place /= size1;
    p0[e] = (int)(place % size0 * step0 - pad0);
    from[e] = x + place / size0 * xn + group * depth + p0[e] * x0 + p1[e] * x1 + p2[e] * x2;
    from_w[e] = w + (group * each + o) * wo;
  }
  float sums[2][4][4];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++)
      for (int c = 0; c < 4; c++) sums[i][j][c] = 0;
  const eight nothing = {{0, 0, 0, 0}};
  eight next_x[2], next_w[2];
  for (int k0 = -32; k0 < K; k0 += 32) {
    if (k0 >= 0) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        *(eight *)&of_x[thread / 4 + 32 * e][t * 4] = next_x[e];
        *(eight *)&of_w[thread / 4 + 32 * e][t * 4] = next_w[e];
      }
      __syncthreads();
    }
    /* the next slice's numbers do not wait for this one's */
    const int k = k0 + 32 + t * 8;
    const unsigned c = (unsigned)k % depth, s = (unsigned)k / depth;
    const int y0 = (int)(s / t12) * (int)dil0, y1 = (int)(s % t12 / t2) * (int)dil1, y2 = (int)(s % t2) * (int)dil2;
    const long long far_x = y0 * x0 + y1 * x1 + y2 * x2 + c, far_w = s / t12 * w0 + s % t12 / t2 * w1 + s % t2 * w2 + c;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int q0 = p0[e] + y0, q1 = p1[e] + y1, q2 = p2[e] + y2;
      const bool is_in = is_place[e] && k < K && q0 >= 0 && q0 < in0 && q1 >= 0 && q1 < in1 && q2 >= 0 && q2 < in2;
      next_x[e] = is_in ? *(const eight *)(from[e] + far_x) : nothing;
      next_w[e] = is_output[e] && k < K ? *(const eight *)(from_w[e] + far_w) : nothing;
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
