/* attention_dkv_mma.cu: the second kernel of ATTENTION_BACKWARD, by tensor cores: the gradients of keys and values. 4 warps
 * have 16 keys and their values each, in registers, and walk over the queries that see them and their gradients, 64 at a
 * time, of one head after the other of those that share the keys:
 *   weight = exp(score - sum), to_v += weight^T grad, to_k += scale * (weight * (grad v^T - grad out^T))^T q,
 * with the sums in `rows`, which attention_dq_mma.cu wrote. Scores are computed with keys as rows, so that what a thread has of
 * them is what it needs as the first operand of both products. Every sum is added up in one order, by one warp.
 * Pieces of matrices, shared memory and stages are as in attention_mma.cu; a stage also has the two sums of each query.
 * IS_DEEP: there are no registers for keys and values beside both sums: they stay in shared memory, and 32 queries
 * come at a time. */
extern "C" __global__ void __launch_bounds__(128, 1)
KERNEL(ELEMENT *__restrict__ to_k, ELEMENT *__restrict__ to_v, const ELEMENT *__restrict__ grad, const ELEMENT *__restrict__ q,
       const ELEMENT *__restrict__ k, const ELEMENT *__restrict__ v, MASK_OPERAND const float *__restrict__ rows,
       int *__restrict__ status, SIZES) {
  enum { ROWS = IS_DEEP ? 32 : 64, KEYS = 64, THREADS = 128, DEPTH = (D + 15) / 16 * 16, DEPTH_V = (DV + 15) / 16 * 16,
         Q_ROW = DEPTH + 8, G_ROW = DEPTH_V + 8, STAGE = ROWS * (Q_ROW + G_ROW), KEPT = IS_DEEP ? 1 : DEPTH / 16, KEPT_V = IS_DEEP ? 1 : DEPTH_V / 16,
         UNROLLED = IS_DEEP || IS_MASKED ? 1 : 4, FAR = 1 << 20 };
  extern __shared__ uint4 memory[];
  ELEMENT *const stages = (ELEMENT *)memory;
  float *const of_rows = (float *)(stages + 2 * STAGE); /* of each stage: ROWS sums of exponentials, ROWS of grad * out */
  ELEMENT *const keys = IS_DEEP ? (ELEMENT *)(of_rows + 4 * ROWS) : stages, *const values = keys + KEYS * Q_ROW;
  const float infinity = inf_f(), log2_e = 1.44269504f, by = (float)__longlong_as_double(scale_bits);
  const float scale = by * (IS_MASKED ? 1.0f : log2_e), unit = IS_MASKED ? log2_e : 1.0f; /* as in attention_mma.cu */
  const int thread = (int)threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4, warp_row = thread / 32 * 16;
  const long long down = (N + KEYS - 1) / KEYS, group = heads / kv_heads;
  const long long first = blockIdx.x % down * KEYS, kv_head = blockIdx.x / down % kv_heads, batch = blockIdx.x / down / kv_heads;
  to_k += batch * tk0 + kv_head * tk1;
  to_v += batch * tv0 + kv_head * tv1;
  grad += batch * g0;
  q += batch * q0;
  k += batch * k0 + kv_head * k1 + first * kn;
  v += batch * v0 + kv_head * v1 + first * vn;
  tile_async(keys, k, kn, kd, N - first, D, IS_WIDE(k, kn, kd), tile<KEYS, DEPTH, Q_ROW, THREADS>());
  tile_async(values, v, vn, vd, N - first, DV, IS_WIDE(v, vn, vd), tile<KEYS, DEPTH_V, G_ROW, THREADS>());
  copies_end();
  copies_wait();
  __syncthreads();
  unsigned x[KEPT][4], y[KEPT_V][4];
  const ELEMENT *const own_keys = keys + (warp_row + lane % 16) * Q_ROW + lane / 16 * 8;
#pragma unroll
  for (int d = 0; d < DEPTH / 16 && !IS_DEEP; d++) pieces(x[d], own_keys + 16 * d);
  const ELEMENT *const own_values = values + (warp_row + lane % 16) * G_ROW + lane / 16 * 8;
#pragma unroll
  for (int d = 0; d < DEPTH_V / 16 && !IS_DEEP; d++) pieces(y[d], own_values + 16 * d);
  __syncthreads(); /* keys and values were read */
  float of_k[DEPTH / 8][4], of_v[DEPTH_V / 8][4];
#pragma unroll
  for (int c = 0; c < DEPTH / 8; c++)
    for (int r = 0; r < 4; r++) of_k[c][r] = 0;
#pragma unroll
  for (int c = 0; c < DEPTH_V / 8; c++)
    for (int r = 0; r < 4; r++) of_v[c][r] = 0;
  const long long begin = causal ? first : 0; /* of the queries */
  const int last_head = (int)((kv_head + 1) * group);
  const bool wide_q = IS_WIDE(q, qm, qd) && q1 % 8 == 0, wide_g = IS_WIDE(grad, gm, gd) && g1 % 8 == 0;
  /* the queries from m on of a head */
  const auto copy = [&](int stage, long long head, long long m) {
    const ELEMENT *const from_q = q + head * q1 + m * qm, *const from_g = grad + head * g1 + m * gm;
    ELEMENT *const next = stages + stage * STAGE;
    tile_async(next, from_q, qm, qd, M - m, D, wide_q, tile<ROWS, DEPTH, Q_ROW, THREADS>());
    tile_async(next + ROWS * Q_ROW, from_g, gm, gd, M - m, DV, wide_g, tile<ROWS, DEPTH_V, G_ROW, THREADS>());
  };
  /* this thread's number of those of a stage */
  const auto row_of = [&](long long head, long long m) {
    const bool is_dot = thread >= ROWS;
    const long long row = m + thread % ROWS;
    if (row >= M) return is_dot ? 0.0f : infinity; /* weights of queries that there are not are 0 */
    return rows[(is_dot ? batches * heads * M : 0) + (batch * heads + head) * M + row];
  };
  int head = (int)(kv_head * group);
  long long query = begin;
  if (begin < M) {
    copy(0, head, query);
    if (thread < 2 * ROWS) of_rows[thread] = row_of(head, query);
  }
  for (int stage = 0; begin < M && head < last_head; stage ^= 1) {
    int next_head = head;
    long long next_query = query + ROWS;
    if (next_query >= M) next_head++, next_query = begin;
    const bool has_next = next_head < last_head;
    copies_end();
    copies_wait();
    __syncthreads();
    float next_row = 0;
    if (has_next) {
      copy(stage ^ 1, next_head, next_query);
      if (thread < 2 * ROWS) next_row = row_of(next_head, next_query);
    }
    const ELEMENT *const of_q = stages + stage * STAGE, *const of_g = of_q + ROWS * Q_ROW;
    const float *const sums = of_rows + stage * 2 * ROWS, *const dots = sums + ROWS;
    const bool all_seen = !causal || first + warp_row + 15 <= query;
#pragma unroll UNROLLED
    for (int j = 0; j < ROWS / 16; j++) {
      float scores[2][4], changes[2][4];
#pragma unroll
      for (int r = 0; r < 8; r++) scores[r / 4][r % 4] = changes[r / 4][r % 4] = 0;
#pragma unroll
      for (int d = 0; d < DEPTH / 16; d++) {
        unsigned z[4]; /* of 16 queries */
        pieces(z, of_q + (16 * j + lane / 16 * 8 + lane % 8) * Q_ROW + 16 * d + lane / 8 % 2 * 8);
        if (IS_DEEP) pieces(x[0], own_keys + 16 * d);
        MMA(scores[0], x[IS_DEEP ? 0 : d], z);
        MMA(scores[1], x[IS_DEEP ? 0 : d], z + 2);
      }
#pragma unroll
      for (int d = 0; d < DEPTH_V / 16; d++) {
        unsigned z[4];
        pieces(z, of_g + (16 * j + lane / 16 * 8 + lane % 8) * G_ROW + 16 * d + lane / 8 % 2 * 8);
        if (IS_DEEP) pieces(y[0], own_values + 16 * d);
        MMA(changes[0], y[IS_DEEP ? 0 : d], z);
        MMA(changes[1], y[IS_DEEP ? 0 : d], z + 2);
      }
#pragma unroll
      for (int r = 0; r < 8; r++) scores[r / 4][r % 4] *= scale;
      if (IS_MASKED || !all_seen) {
        /* This thread's first key and first query: how many there are behind them, how far they are apart, and their mask. */
        const long long own_key = first + warp_row + g, own_query = query + 2 * t;
        const int keys_left = (int)least(N - own_key, FAR), queries_left = (int)least(M - own_query, FAR);
        const int lead = causal ? (int)most(least(own_query - own_key, FAR), -FAR) : FAR;
        const long long at_mask = batch * m0 + head * m1 + own_query * mm + own_key * mn;
#pragma unroll
        for (int r = 0; r < 8; r++) {
          const int n = r % 4 / 2 * 8, m = 16 * j + r / 4 * 8 + r % 2;
          const bool is_seen = n < keys_left && m < queries_left && n <= lead + m;
          scores[r / 4][r % 4] = is_seen ? MASKED(scores[r / 4][r % 4], at_mask + m * mm + n * mn) : -infinity;
        }
      }
#pragma unroll
      for (int r = 0; r < 8; r++) {
        const int at = 16 * j + r / 4 * 8 + 2 * t + r % 2;
        float *const score = &scores[r / 4][r % 4], *const change = &changes[r / 4][r % 4];
        *score = exp2_near_f((*score - sums[at]) * unit);
        *change = *score * (*change - dots[at]);
      }
      unsigned p[4], s[4];
#pragma unroll
      for (int r = 0; r < 4; r++) {
        p[r] = PAIR(scores[r / 2][r % 2 * 2], scores[r / 2][r % 2 * 2 + 1]);
        s[r] = PAIR(changes[r / 2][r % 2 * 2], changes[r / 2][r % 2 * 2 + 1]);
      }
#pragma unroll
      for (int c = 0; c < DEPTH_V / 16; c++) {
        unsigned z[4]; /* of 16 columns */
        pieces_across(z, of_g + (16 * j + lane % 16) * G_ROW + 16 * c + lane / 16 * 8);
        MMA(of_v[2 * c], p, z);
        MMA(of_v[2 * c + 1], p, z + 2);
      }
#pragma unroll
      for (int c = 0; c < DEPTH / 16; c++) {
        unsigned z[4];
        pieces_across(z, of_q + (16 * j + lane % 16) * Q_ROW + 16 * c + lane / 16 * 8);
        MMA(of_k[2 * c], s, z);
        MMA(of_k[2 * c + 1], s, z + 2);
      }
    }
    if (has_next && thread < 2 * ROWS) of_rows[(stage ^ 1) * 2 * ROWS + thread] = next_row;
    head = next_head, query = next_query;
  }
  STORE_ROWS(to_k, first + warp_row, N, D, tkn, tkd, of_k, by)
  STORE_ROWS(to_v, first + warp_row, N, DV, tvn, tvd, of_v, 1.0f)
}
