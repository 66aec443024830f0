/* attention_dq_mma.cu: the first kernel of ATTENTION_BACKWARD (henry/abi/extern_abi.h), by tensor cores: the gradient of
 * queries, and for each of them what the second kernel (attention_dkv_mma.cu) needs: in `rows` the logarithm of the sum of
 * exponentials, and behind all of those the sum of grad * out. 4 warps have 16 queries and their gradients each, in
 * registers, and walk over the keys, 64 at a time, twice: for the sum, which nobody keeps from the forward pass, and for
 *   weight = exp(score - sum), d_score = weight * (grad v^T - grad out^T), to = scale * d_score k.
 * A weight needs nothing of the other keys of its row, so that 16 keys are done before the next 16 begin. Pieces of matrices,
 * shared memory and stages are as in attention_mma.cu. */
extern "C" __global__ void __launch_bounds__(128, 1)
KERNEL(ELEMENT *__restrict__ to, const ELEMENT *__restrict__ grad, const ELEMENT *__restrict__ q, const ELEMENT *__restrict__ k,
       const ELEMENT *__restrict__ v, const ELEMENT *__restrict__ o, MASK_OPERAND float *__restrict__ rows,
       int *__restrict__ status, SIZES) {
  enum { ROWS = 64, KEYS = 64, THREADS = 128, DEPTH = (D + 15) / 16 * 16, DEPTH_V = (DV + 15) / 16 * 16,
         K_ROW = DEPTH + 8, V_ROW = DEPTH_V + 8, STAGE = KEYS * (K_ROW + V_ROW), UNROLLED = IS_MASKED ? 1 : 4, FAR = 1 << 20 };
  extern __shared__ uint4 memory[];
  ELEMENT *const stages = (ELEMENT *)memory;
  const float infinity = inf_f(), log2_e = 1.44269504f, by = (float)__longlong_as_double(scale_bits);
  const float scale = by * (IS_MASKED ? 1.0f : log2_e), unit = IS_MASKED ? log2_e : 1.0f; /* as in attention_mma.cu */
  const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4, warp_row = (int)threadIdx.x / 32 * 16;
  const long long down = (M + ROWS - 1) / ROWS; /* the last ones, which see the most keys, go first */
  const long long first = (down - 1 - blockIdx.x % down) * ROWS, head = blockIdx.x / down % heads, batch = blockIdx.x / down / heads;
  const long long kv_head = head / (heads / kv_heads);
  to += batch * to0 + head * to1;
  grad += batch * g0 + head * g1 + first * gm;
  q += batch * q0 + head * q1 + first * qm;
  k += batch * k0 + kv_head * k1;
  v += batch * v0 + kv_head * v1;
  o += batch * o0 + head * o1 + first * om;
  const bool wide_k = IS_WIDE(k, kn, kd), wide_v = IS_WIDE(v, vn, vd);
  const long long at_mask = batch * m0 + head * m1;
  const long long until = causal && first + ROWS < N ? first + ROWS : N;
  tile_async(stages, q, qm, qd, M - first, D, IS_WIDE(q, qm, qd), tile<ROWS, DEPTH, K_ROW, THREADS>());
  tile_async(stages + ROWS * K_ROW, grad, gm, gd, M - first, DV, IS_WIDE(grad, gm, gd), tile<ROWS, DEPTH_V, V_ROW, THREADS>());
  copies_end();
  float dots[2] = {0, 0}; /* of rows g and g + 8 */
  for (int r = 0; r < 16; r++) {
    const long long at = warp_row + r;
    float sum = 0;
    if (first + at < M)
      for (int c = lane; c < DV; c += 32) sum += LOAD(grad[at * gm + c * gd]) * LOAD(o[at * om + c * od]);
    for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (r == g) dots[0] = sum;
    if (r == g + 8) dots[1] = sum;
  }
  copies_wait();
  __syncthreads();
  unsigned x[DEPTH / 16][4], y[DEPTH_V / 16][4];
#pragma unroll
  for (int d = 0; d < DEPTH / 16; d++) pieces(x[d], stages + (warp_row + lane % 16) * K_ROW + 16 * d + lane / 16 * 8);
#pragma unroll
  for (int d = 0; d < DEPTH_V / 16; d++)
    pieces(y[d], stages + ROWS * K_ROW + (warp_row + lane % 16) * V_ROW + 16 * d + lane / 16 * 8);
  /* scores of 16 keys from `key` on: rows g (numbers 0 and 1 of a piece) and g + 8 (2 and 3), which 4 threads share */
  const auto score = [&](float (*s)[4], const ELEMENT *of_k, long long key, bool all_seen) {
#pragma unroll
    for (int r = 0; r < 8; r++) s[r / 4][r % 4] = 0;
#pragma unroll
    for (int d = 0; d < DEPTH / 16; d++) {
      unsigned z[4];
      pieces(z, of_k + (lane / 16 * 8 + lane % 8) * K_ROW + 16 * d + lane / 8 % 2 * 8);
      MMA(s[0], x[d], z);
      MMA(s[1], x[d], z + 2);
    }
#pragma unroll
    for (int r = 0; r < 8; r++) s[r / 4][r % 4] *= scale;
    if (IS_MASKED || !all_seen) {
      /* This thread's first query and first key: how many keys there are from it on, how far they are apart, and their mask. */
      const long long own_query = first + warp_row + g, own_key = key + 2 * t;
      const int keys_left = (int)least(N - own_key, FAR), queries_left = (int)least(M - own_query, FAR);
      const int lead = causal ? (int)most(least(own_query - own_key, FAR), -FAR) : FAR;
      const long long at = at_mask + own_query * mm + own_key * mn;
#pragma unroll
      for (int r = 0; r < 8; r++) {
        const int m = r % 4 / 2 * 8, n = r / 4 * 8 + r % 2;
        const bool is_seen = n < keys_left && m < queries_left && n <= lead + m;
        s[r / 4][r % 4] = is_seen ? MASKED(s[r / 4][r % 4], at + m * mm + n * mn) : -infinity;
      }
    }
  };
  const long long seen_by_all = causal && first + warp_row + 1 < N ? first + warp_row + 1 : N;
  float highest[2] = {-infinity, -infinity}, total[2] = {0, 0}; /* of this thread's keys */
  __syncthreads(); /* queries and gradients were read */
  tile_async(stages, k, kn, kd, N, D, wide_k, tile<KEYS, DEPTH, K_ROW, THREADS>());
  int stage = 0;
  for (long long n0 = 0; n0 < until; n0 += KEYS, stage ^= 1) {
    copies_end();
    copies_wait();
    __syncthreads();
    if (n0 + KEYS < until)
      tile_async(stages + (stage ^ 1) * STAGE, k + (n0 + KEYS) * kn, kn, kd, N - n0 - KEYS, D, wide_k, tile<KEYS, DEPTH, K_ROW, THREADS>());
#pragma unroll UNROLLED
    for (int j = 0; j < KEYS / 16; j++) {
      float scores[2][4];
      score(scores, stages + stage * STAGE + 16 * j * K_ROW, n0 + 16 * j, n0 + 16 * j + 16 <= seen_by_all);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float largest = highest[i], sum = 0;
#pragma unroll
        for (int r = 0; r < 4; r++) largest = max_f(largest, scores[r / 2][2 * i + r % 2]);
        const float base = largest == -infinity ? 0.0f : largest;
#pragma unroll
        for (int r = 0; r < 4; r++) sum += exp2_near_f((scores[r / 2][2 * i + r % 2] - base) * unit);
        total[i] = total[i] * exp2_near_f((highest[i] - base) * unit) + sum;
        highest[i] = largest;
      }
    }
  }
  float log_sum[2]; /* infinite for a row that sees no key: its weights are 0 */
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float largest = highest[i];
    for (int other = 2; other; other /= 2) largest = max_f(largest, __shfl_xor_sync(0xffffffffu, largest, other));
    const float base = largest == -infinity ? 0.0f : largest;
    total[i] *= exp2_near_f((highest[i] - base) * unit);
    for (int other = 2; other; other /= 2) total[i] += __shfl_xor_sync(0xffffffffu, total[i], other);
    log_sum[i] = total[i] == 0 ? infinity : base + logf(total[i]) * (IS_MASKED ? 1.0f : log2_e);
    const long long m = first + warp_row + g + 8 * i, at = (batch * heads + head) * M + m;
    if (t == 0 && m < M) {
      rows[at] = log_sum[i];
      rows[batches * heads * M + at] = dots[i];
    }
  }
  float sums[DEPTH / 8][4];
#pragma unroll
  for (int c = 0; c < DEPTH / 8; c++)
    for (int r = 0; r < 4; r++) sums[c][r] = 0;
  __syncthreads(); /* keys were read */
  tile_async(stages, k, kn, kd, N, D, wide_k, tile<KEYS, DEPTH, K_ROW, THREADS>());
  tile_async(stages + KEYS * K_ROW, v, vn, vd, N, DV, wide_v, tile<KEYS, DEPTH_V, V_ROW, THREADS>());
  stage = 0;
  for (long long n0 = 0; n0 < until; n0 += KEYS, stage ^= 1) {
    copies_end();
    copies_wait();
    __syncthreads();
    if (n0 + KEYS < until) {
      const long long n1 = n0 + KEYS;
      ELEMENT *const next = stages + (stage ^ 1) * STAGE;
      tile_async(next, k + n1 * kn, kn, kd, N - n1, D, wide_k, tile<KEYS, DEPTH, K_ROW, THREADS>());
      tile_async(next + KEYS * K_ROW, v + n1 * vn, vn, vd, N - n1, DV, wide_v, tile<KEYS, DEPTH_V, V_ROW, THREADS>());
    }
    const ELEMENT *const of_k = stages + stage * STAGE, *const of_v = of_k + KEYS * K_ROW;
#pragma unroll UNROLLED
    for (int j = 0; j < KEYS / 16; j++) {
      float scores[2][4], changes[2][4];
      score(scores, of_k + 16 * j * K_ROW, n0 + 16 * j, n0 + 16 * j + 16 <= seen_by_all);
#pragma unroll
      for (int r = 0; r < 8; r++) changes[r / 4][r % 4] = 0;
#pragma unroll
      for (int d = 0; d < DEPTH_V / 16; d++) {
        unsigned z[4];
        pieces(z, of_v + (16 * j + lane / 16 * 8 + lane % 8) * V_ROW + 16 * d + lane / 8 % 2 * 8);
        MMA(changes[0], y[d], z);
        MMA(changes[1], y[d], z + 2);
      }
#pragma unroll
      for (int r = 0; r < 8; r++)
        changes[r / 4][r % 4] = exp2_near_f((scores[r / 4][r % 4] - log_sum[r % 4 / 2]) * unit) * (changes[r / 4][r % 4] - dots[r % 4 / 2]);
      unsigned p[4];
#pragma unroll
      for (int r = 0; r < 4; r++) p[r] = PAIR(changes[r / 2][r % 2 * 2], changes[r / 2][r % 2 * 2 + 1]);
#pragma unroll
      for (int c = 0; c < DEPTH / 16; c++) {
        unsigned z[4]; /* of 16 columns */
        pieces_across(z, of_k + (16 * j + lane % 16) * K_ROW + 16 * c + lane / 16 * 8);
        MMA(sums[2 * c], p, z);
        MMA(sums[2 * c + 1], p, z + 2);
      }
    }
  }
  STORE_ROWS(to, first + warp_row, M, D, tom, tod, sums, by)
}
