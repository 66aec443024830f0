/* matmul_mma.cu: matmul.cu for 16-bit floats, by tensor cores. 8 warps make 128 x 128 results, 64 x 32 a warp, in
 * pieces of 16 x 8; a warp's threads hold a piece as mma.m16n8k16 wants it: thread 4 g + t has rows g and g + 8, columns
 * 2 t and 2 t + 1. Operands wait in shared memory as they lie in memory, with the dimension inside whose numbers are
 * neighbours: rows of 32 numbers of the sum's dimension, or of 128 of the other one, which tensor cores get across. Rows
 * have 8 numbers more than that: the 8 that a warp reads at a time are in each other's banks nowhere.
 *
 * Copies go on beside the arithmetic, two turns ahead. There are three stages; a turn of the loop
 *   1. waits for this thread's copies of this turn's stage, which are all but the last lot;
 *   2. waits for all threads: then all their copies are there as well, and nobody reads the stage of the turn before;
 *   3. begins copies into that one, and computes with its own. A lot may be empty, so that they can be counted. */
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
  enum { TILE = 128, DEEP = 32, THREADS = 256, INSIDE = DEEP + 8, ACROSS = TILE + 8, STAGE = TILE * INSIDE, STAGES = 3 };
  extern __shared__ uint4 memory[];
  ELEMENT *const stages = (ELEMENT *)memory; /* a tile of a, a tile of b, and so on */
  const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = (int)threadIdx.x / 32;
  const int row = warp / 4 * 64, column = warp % 4 * 32;
  const long long across = (N + TILE - 1) / TILE, down = (M + TILE - 1) / TILE;
  long long block = blockIdx.x;
  const long long n0 = block % across * TILE;
  block /= across;
  const long long m0 = block % down * TILE;
  block /= down;
  const long long i3 = block % s3;
  block /= s3;
  const long long i2 = block % s2;
  block /= s2;
  const long long i1 = block % s1, i0 = block / s1;
  a += i0 * a0 + i1 * a1 + i2 * a2 + i3 * a3 + m0 * am;
  b += i0 * b0 + i1 * b1 + i2 * b2 + i3 * b3 + n0 * bn;
  const bool a_inside = ak == 1 || am != 1, b_inside = bk == 1 || bn != 1; /* rows of the sum's dimension */
  const bool wide_a = (ak == 1 ? am : am == 1 ? ak : 1) % 8 == 0 && (unsigned long long)a % 16 == 0;
  const bool wide_b = (bk == 1 ? bn : bn == 1 ? bk : 1) % 8 == 0 && (unsigned long long)b % 16 == 0;
  float sums[4][4][4];
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
      for (int c = 0; c < 4; c++) sums[i][j][c] = 0;
  int next = 0; /* the stage that gets copies */
#pragma unroll 1
  for (long long k0 = -2 * DEEP; k0 < K; k0 += DEEP) {
    const long long k1 = k0 + 2 * DEEP;
    if (k0 >= 0) {
      copies_wait_but_one();
      __syncthreads();
    }
    if (k1 < K) {
      ELEMENT *const to_a = stages + next * (2 * STAGE), *const to_b = to_a + STAGE;
      if (a_inside) tile_async(to_a, a + k1 * ak, am, ak, M - m0, K - k1, wide_a, tile<TILE, DEEP, INSIDE, THREADS>());
      else tile_async(to_a, a + k1 * ak, ak, am, K - k1, M - m0, wide_a, tile<DEEP, TILE, ACROSS, THREADS>());
      if (b_inside) tile_async(to_b, b + k1 * bk, bn, bk, N - n0, K - k1, wide_b, tile<TILE, DEEP, INSIDE, THREADS>());
      else tile_async(to_b, b + k1 * bk, bk, bn, K - k1, N - n0, wide_b, tile<DEEP, TILE, ACROSS, THREADS>());
    }
    copies_end();
    next = next == STAGES - 1 ? 0 : next + 1;
    if (k0 < 0) continue;
    const int stage = next; /* of three: it got copies two turns ago */
    const ELEMENT *const of_a = stages + stage * (2 * STAGE), *const of_b = of_a + STAGE;
#pragma unroll
    for (int k = 0; k < DEEP; k += 16) {
      unsigned x[4][4], y[2][4]; /* of y a row is two pieces */
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (a_inside) pieces(x[i], of_a + (row + 16 * i + lane % 16) * INSIDE + k + lane / 16 * 8);
        else pieces_across(x[i], of_a + (k + lane / 16 * 8 + lane % 8) * ACROSS + row + 16 * i + lane / 8 % 2 * 8);
#pragma unroll
      for (int j = 0; j < 2; j++)
        if (b_inside) pieces(y[j], of_b + (column + 16 * j + lane / 16 * 8 + lane % 8) * INSIDE + k + lane / 8 % 2 * 8);
        else pieces_across(y[j], of_b + (k + lane % 16) * ACROSS + column + 16 * j + lane / 16 * 8);
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) MMA(sums[i][j], x[i], (y[j / 2] + j % 2 * 2));
    }
  }
  const long long at_bias = i0 * c0 + i1 * c1 + i2 * c2 + i3 * c3, at_residual = i0 * r0 + i1 * r1 + i2 * r2 + i3 * r3;
  out += i0 * o0 + i1 * o1 + i2 * o2 + i3 * o3;
  const bool in_pairs = on == 1 && om % 2 == 0 && N % 2 == 0 && (unsigned long long)out % 4 == 0;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const long long m = m0 + row + 16 * i + g + 8 * r, n = n0 + column + 8 * j + 2 * t;
        if (m >= M || n >= N) continue;
        float ends[2];
#pragma unroll
        for (int c = 0; c < 2; c++) {
          float x = sums[i][j][2 * r + c];
          if (n + c < N) {
            SUM(bias, at_bias + m * cm + (n + c) * cn)
            SUM_MORE(residual, at_residual + m * rm + (n + c) * rn)
          }
          ends[c] = FINISH(x);
        }
        if (in_pairs) {
          *(unsigned *)(out + m * om + n) = PAIR(ends[0], ends[1]);
        } else {
          out[m * om + n * on] = STORE(ends[0]);
          if (n + 1 < N) out[m * om + (n + 1) * on] = STORE(ends[1]);
        }
      }
}
