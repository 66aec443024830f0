/* attention_mma.cu: attention.cu for 16-bit floats, by tensor cores; pieces of matrices as in matmul_mma.cu. 4 warps
 * have 16 queries each, in registers, and walk over the keys, 64 at a time. Scores stay in registers, too: what a thread
 * has of the result of one product is what it needs as the first operand of the next. D and DV are numbers of the text;
 * DEPTH and DEPTH_V are multiples of 16. A row in shared memory has 8 numbers more than that, so that the 8 rows that a
 * warp reads at a time are in each other's banks nowhere. IS_MASKED: there is a mask. An infinite value of a key that a
 * query does not see makes its result NaN: tensor cores multiply it by 0.
 *
 * Copies go on beside the arithmetic. There are two stages with room for keys and values; a turn of the loop
 *   1. waits for the copies that this thread has begun: those of this turn's stage;
 *   2. waits for all threads: then all their copies are there as well, and nobody reads the other stage any more;
 *   3. begins the copies into the other stage, and computes with this one.
 * Queries come first, into the second stage, where they stay until the first turn has passed 2.
 *
 * The 1 in the bounds says that a thread may have 255 registers; without it the compiler keeps to 128 for sm_120. */
extern "C" __global__ void __launch_bounds__(128, 1)
KERNEL(ELEMENT *__restrict__ out, const ELEMENT *__restrict__ q, const ELEMENT *__restrict__ k,
       const ELEMENT *__restrict__ v, const MASK_ELEMENT *__restrict__ mask, int *__restrict__ status,
       long long batches, long long heads, long long kv_heads, long long M, long long N, long long depth, long long depth_v,
       long long q0, long long q1, long long qm, long long qd, long long k0, long long k1, long long kn, long long kd,
       long long v0, long long v1, long long vn, long long vd, long long o0, long long o1, long long om, long long od,
       long long m0, long long m1, long long mm, long long mn, long long causal, long long scale_bits) {
  enum { KEYS = 64, THREADS = 128, DEPTH = (D + 15) / 16 * 16, DEPTH_V = (DV + 15) / 16 * 16,
         K_ROW = DEPTH + 8, V_ROW = DEPTH_V + 8, STAGE = KEYS * (K_ROW + V_ROW) };
  extern __shared__ uint4 memory[];
  ELEMENT *const stages = (ELEMENT *)memory;
  const float infinity = inf_f(), log2_e = 1.44269504f;
  /* Exponentials are powers of 2. The factor of that goes with the scale, unless a mask is added behind it: the least
   * number, which some masks have, times the factor would be infinite. */
  const float scale = (float)__longlong_as_double(scale_bits) * (IS_MASKED ? 1.0f : log2_e), unit = IS_MASKED ? log2_e : 1.0f;
  const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, warp_row = (int)threadIdx.x / 32 * 16;
  const long long down = (M + ROWS - 1) / ROWS; /* the last ones, which see the most keys, go first */
  const long long first = (down - 1 - blockIdx.x % down) * ROWS, head = blockIdx.x / down % heads, batch = blockIdx.x / down / heads;
  const long long kv_head = head / (heads / kv_heads);
  q += batch * q0 + head * q1 + first * qm;
  k += batch * k0 + kv_head * k1;
  v += batch * v0 + kv_head * v1;
  out += batch * o0 + head * o1;
  const bool wide_q = qd == 1 && qm % 8 == 0 && (unsigned long long)q % 16 == 0;
  const bool wide_k = kd == 1 && kn % 8 == 0 && (unsigned long long)k % 16 == 0;
  const bool wide_v = vd == 1 && vn % 8 == 0 && (unsigned long long)v % 16 == 0;
  const long long at_mask = batch * m0 + head * m1;
  const long long until = causal && first + ROWS < N ? first + ROWS : N;
  tile_async(stages + STAGE, q, qm, qd, M - first, D, wide_q, tile<ROWS, DEPTH, K_ROW, THREADS>());
  copies_end();
  tile_async(stages, k, kn, kd, N, D, wide_k, tile<KEYS, DEPTH, K_ROW, THREADS>());
  tile_async(stages + KEYS * K_ROW, v, vn, vd, N, DV, wide_v, tile<KEYS, DEPTH_V, V_ROW, THREADS>());
  copies_end();
  copies_wait_but_one();
  __syncthreads(); /* queries are there */
  unsigned x[DEPTH / 16][4];
#pragma unroll
  for (int d = 0; d < DEPTH / 16; d++)
    pieces(x[d], stages + STAGE + (warp_row + lane % 16) * K_ROW + 16 * d + lane / 16 * 8);
  float sums[DEPTH_V / 8][4], most[2], total[2];
#pragma unroll
  for (int c = 0; c < DEPTH_V / 8; c++)
    for (int r = 0; r < 4; r++) sums[c][r] = 0;
  most[0] = most[1] = -infinity;
  total[0] = total[1] = 0; /* of this thread's keys */
  int stage = 0;
  for (long long n0 = 0; n0 < until; n0 += KEYS, stage ^= 1) {
    copies_wait();
    __syncthreads();
    if (n0 + KEYS < until) {
      const long long n1 = n0 + KEYS;
      ELEMENT *const to = stages + (stage ^ 1) * STAGE;
      tile_async(to, k + n1 * kn, kn, kd, N - n1, D, wide_k, tile<KEYS, DEPTH, K_ROW, THREADS>());
      tile_async(to + KEYS * K_ROW, v + n1 * vn, vn, vd, N - n1, DV, wide_v, tile<KEYS, DEPTH_V, V_ROW, THREADS>());
    }
    copies_end();
    const ELEMENT *const of_k = stages + stage * STAGE, *const of_v = of_k + KEYS * K_ROW;
    float scores[KEYS / 8][4];
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
      for (int r = 0; r < 4; r++) scores[j][r] = 0;
#pragma unroll
    for (int d = 0; d < DEPTH / 16; d++)
#pragma unroll
      for (int j = 0; j < KEYS / 16; j++) {
        unsigned y[4]; /* of 16 keys */
        pieces(y, of_k + (16 * j + lane / 16 * 8 + lane % 8) * K_ROW + 16 * d + lane / 8 % 2 * 8);
        MMA(scores[2 * j], x[d], y);
        MMA(scores[2 * j + 1], x[d], y + 2);
      }
    const bool all_seen = n0 + KEYS <= (causal && first + warp_row + 1 < N ? first + warp_row + 1 : N);
    /* rows g (numbers 0 and 1 of a piece) and g + 8 (2 and 3), which 4 threads share */
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const long long m = first + warp_row + g + 8 * i;
      const long long end = m >= M ? 0 : causal && m + 1 < N ? m + 1 : N; /* of the keys that the row sees */
      const int seen = end - n0 < KEYS ? (int)(end - n0) - 2 * t : KEYS;  /* of number c of piece j: 8 j + c < seen */
      float largest = most[i];
      long long at = at_mask + m * mm + (n0 + 2 * t) * mn;
#pragma unroll
      for (int j = 0; j < KEYS / 8; j++, at += 8 * mn)
#pragma unroll
        for (int c = 0; c < 2; c++) {
          float *const score = &scores[j][2 * i + c];
          *score *= scale;
          if (IS_MASKED && 8 * j + c < seen) *score = MASKED(*score, at + c * mn);
        }
      if (!all_seen) {
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
          for (int c = 0; c < 2; c++)
            if (8 * j + c >= seen) scores[j][2 * i + c] = -infinity;
      }
#pragma unroll
      for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int c = 0; c < 2; c++) largest = scores[j][2 * i + c] > largest ? scores[j][2 * i + c] : largest;
#pragma unroll
      for (int other = 2; other; other /= 2) {
        const float theirs = __shfl_xor_sync(0xffffffffu, largest, other);
        largest = theirs > largest ? theirs : largest;
      }
      const float base = largest == -infinity ? 0.0f : largest, less = exp2_near_f((most[i] - base) * unit);
      most[i] = largest;
      total[i] *= less;
#pragma unroll
      for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
          float *const score = &scores[j][2 * i + c];
          *score = exp2_near_f((*score - base) * unit);
          total[i] += *score;
        }
#pragma unroll
      for (int c = 0; c < DEPTH_V / 8; c++) sums[c][2 * i] *= less, sums[c][2 * i + 1] *= less;
    }
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
      unsigned p[4];
#pragma unroll
      for (int r = 0; r < 4; r++) p[r] = PAIR(scores[2 * j + r / 2][r % 2 * 2], scores[2 * j + r / 2][r % 2 * 2 + 1]);
#pragma unroll
      for (int c = 0; c < DEPTH_V / 16; c++) {
        unsigned y[4]; /* of 16 columns */
        pieces_across(y, of_v + (16 * j + lane % 16) * V_ROW + 16 * c + lane / 16 * 8);
        MMA(sums[2 * c], p, y);
        MMA(sums[2 * c + 1], p, y + 2);
      }
    }
  }
  const bool in_pairs = od == 1 && om % 2 == 0 && DV % 2 == 0 && (unsigned long long)out % 4 == 0;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const long long m = first + warp_row + g + 8 * i;
#pragma unroll
    for (int other = 2; other; other /= 2) total[i] += __shfl_xor_sync(0xffffffffu, total[i], other);
    if (m >= M) continue;
    const float by = total[i] > 0 ? 1.0f / total[i] : total[i]; /* a NaN stays one */
#pragma unroll
    for (int c = 0; c < DEPTH_V / 8; c++) {
      const int d = 8 * c + 2 * t;
      const float a = total[i] == 0 ? 0.0f : sums[c][2 * i] * by, b = total[i] == 0 ? 0.0f : sums[c][2 * i + 1] * by;
      if (in_pairs && d < DV) *(unsigned *)(out + m * om + d) = PAIR(a, b);
      if (!in_pairs && d < DV) out[m * om + d * od] = STORE(a);
      if (!in_pairs && d + 1 < DV) out[m * om + (d + 1) * od] = STORE(b);
    }
  }
}
