/* attention_mma.cu: attention.cu for 16-bit floats, by tensor cores; pieces of matrices as in matmul_mma.cu. 4 warps
 * have 16 queries each and walk over the keys, 32 at a time. Scores stay in registers: what a thread has of the result
 * of one product is what it needs as the first operand of the next. Values wait with keys inside. D and DV are numbers
 * of the text; DEPTH is D, a multiple of 16. An infinite value of a key that a query does not see makes its result NaN:
 * tensor cores multiply it by 0. */
extern "C" __global__ void __launch_bounds__(128, 1)
KERNEL(ELEMENT *__restrict__ out, const ELEMENT *__restrict__ q, const ELEMENT *__restrict__ k,
       const ELEMENT *__restrict__ v, const MASK_ELEMENT *__restrict__ mask, int *__restrict__ status,
       long long batches, long long heads, long long kv_heads, long long M, long long N, long long depth, long long depth_v,
       long long q0, long long q1, long long qm, long long qd, long long k0, long long k1, long long kn, long long kd,
       long long v0, long long v1, long long vn, long long vd, long long o0, long long o1, long long om, long long od,
       long long m0, long long m1, long long mm, long long mn, long long causal, long long scale_bits) {
  enum { KEYS = 32, DEPTH = (D + 15) / 16 * 16, PIECES = (DV + 7) / 8, Q_ROW = DEPTH + 8, V_ROW = KEYS + 8,
         KV_SIZE = KEYS * Q_ROW > PIECES * 8 * V_ROW ? KEYS * Q_ROW : PIECES * 8 * V_ROW };
  __shared__ unsigned of_q[64 * Q_ROW / 2], of_kv[KV_SIZE / 2]; /* pairs */
  ELEMENT *const to_q = (ELEMENT *)of_q, *const to_kv = (ELEMENT *)of_kv;
  const float infinity = inf_f(), scale = (float)__longlong_as_double(scale_bits);
  const int thread = (int)threadIdx.x, g = thread % 32 / 4, t = thread % 4, row = thread / 32 * 16 + g;
  const long long down = (M + 63) / 64;
  const long long first = blockIdx.x % down * 64, head = blockIdx.x / down % heads, batch = blockIdx.x / down / heads;
  const long long kv_head = head / (heads / kv_heads);
  q += batch * q0 + head * q1;
  k += batch * k0 + kv_head * k1;
  v += batch * v0 + kv_head * v1;
  for (int e = thread; e < 64 * DEPTH; e += 128) {
    const int r = e / DEPTH, d = e % DEPTH;
    to_q[r * Q_ROW + d] = first + r < M && d < D ? q[(first + r) * qm + d * qd] : (ELEMENT)0;
  }
  float sums[PIECES][4], most[2], total[2];
  for (int c = 0; c < PIECES; c++)
    for (int r = 0; r < 4; r++) sums[c][r] = 0;
  most[0] = most[1] = -infinity;
  total[0] = total[1] = 0;
  const long long until = causal && first + 64 < N ? first + 64 : N;
  for (long long n0 = 0; n0 < until; n0 += KEYS) {
    __syncthreads(); /* of_kv was read */
    for (int e = thread; e < KEYS * DEPTH; e += 128) {
      const int n = e / DEPTH, d = e % DEPTH;
      to_kv[n * Q_ROW + d] = n0 + n < N && d < D ? k[(n0 + n) * kn + d * kd] : (ELEMENT)0;
    }
    __syncthreads();
    float scores[KEYS / 8][4];
    for (int j = 0; j < KEYS / 8; j++)
      for (int r = 0; r < 4; r++) scores[j][r] = 0;
#pragma unroll
    for (int d = 0; d < DEPTH / 2; d += 8) {
      unsigned x[4];
      for (int r = 0; r < 4; r++) x[r] = of_q[(row + r % 2 * 8) * (Q_ROW / 2) + d + t + r / 2 * 4];
      for (int j = 0; j < KEYS / 8; j++) {
        unsigned y[2];
        for (int r = 0; r < 2; r++) y[r] = of_kv[(8 * j + g) * (Q_ROW / 2) + d + t + r * 4];
        MMA(scores[j], x, y);
      }
    }
    /* rows g (numbers 0 and 1 of a piece) and g + 8 (2 and 3), which 4 threads share */
    for (int i = 0; i < 2; i++) {
      const long long m = first + row + 8 * i;
      float largest = most[i];
      for (int j = 0; j < KEYS / 8; j++)
        for (int c = 0; c < 2; c++) {
          const long long n = n0 + 8 * j + 2 * t + c;
          float *const score = &scores[j][2 * i + c];
          const bool is_seen = n < N && m < M && !(causal && n > m);
          *score = is_seen ? MASKED(*score * scale, batch * m0 + head * m1 + m * mm + n * mn) : -infinity;
          largest = *score > largest ? *score : largest;
        }
      for (int other = 2; other; other /= 2) {
        const float theirs = __shfl_xor_sync(0xffffffffu, largest, other);
        largest = theirs > largest ? theirs : largest;
      }
      const float base = largest == -infinity ? 0.0f : largest, less = expf(most[i] - base);
      float sum = 0;
      for (int j = 0; j < KEYS / 8; j++)
        for (int c = 0; c < 2; c++) {
          float *const score = &scores[j][2 * i + c];
          *score = *score == -infinity ? 0.0f : expf(*score - base);
          sum += *score;
        }
      for (int other = 2; other; other /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
      most[i] = largest;
      total[i] = total[i] * less + sum;
      for (int c = 0; c < PIECES; c++) sums[c][2 * i] *= less, sums[c][2 * i + 1] *= less;
    }
    __syncthreads(); /* of_kv was read */
    for (int e = thread; e < KEYS * PIECES * 8; e += 128) {
      const int n = e / (PIECES * 8), d = e % (PIECES * 8);
      to_kv[d * V_ROW + n] = n0 + n < N && d < DV ? v[(n0 + n) * vn + d * vd] : (ELEMENT)0;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
      unsigned p[4];
      for (int r = 0; r < 4; r++)
        p[r] = (unsigned)STORE(scores[2 * j + r / 2][r % 2 * 2]) | (unsigned)STORE(scores[2 * j + r / 2][r % 2 * 2 + 1]) << 16;
      for (int c = 0; c < PIECES; c++) {
        unsigned y[2];
        for (int r = 0; r < 2; r++) y[r] = of_kv[(8 * c + g) * (V_ROW / 2) + 8 * j + t + r * 4];
        MMA(sums[c], p, y);
      }
    }
  }
  for (int i = 0; i < 2; i++) {
    const long long m = first + row + 8 * i;
    const float by = total[i] > 0 ? 1.0f / total[i] : total[i]; /* a NaN stays one */
    for (int c = 0; c < PIECES; c++)
      for (int r = 0; r < 2; r++) {
        const int d = 8 * c + 2 * t + r;
        if (m < M && d < DV)
          out[batch * o0 + head * o1 + m * om + d * od] = STORE(total[i] == 0 ? 0.0f : sums[c][2 * i + r] * by);
      }
  }
}
