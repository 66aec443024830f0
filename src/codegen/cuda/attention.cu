/* attention.cu: ATTENTION (henry/abi/extern_abi.h) in blocks, without a matrix of scores in memory: a group has
 * ROWS queries of one head and walks over the keys, 32 at a time, with the largest score of each row and the sum of
 * exponentials so far (Milakov and Gimelshein, "Online normalizer calculation for softmax"). D and DV are numbers of
 * the text. 16 x 16 threads: row t / 16 + 16 i, and in it scores t % 16 + 16 j. */
#if __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890
#define GROUPS 3 /* else the compiler takes 64 registers there, and a stack; with 72 it needs none */
#else
#define GROUPS 0 /* as many as it likes */
#endif
extern "C" __global__ void __launch_bounds__(256, GROUPS)
KERNEL(ELEMENT *__restrict__ out, const ELEMENT *__restrict__ q, const ELEMENT *__restrict__ k,
       const ELEMENT *__restrict__ v, const MASK_ELEMENT *__restrict__ mask, int *__restrict__ status,
       long long batches, long long heads, long long kv_heads, long long M, long long N, long long depth, long long depth_v,
       long long q0, long long q1, long long qm, long long qd, long long k0, long long k1, long long kn, long long kd,
       long long v0, long long v1, long long vn, long long vd, long long o0, long long o1, long long om, long long od,
       long long m0, long long m1, long long mm, long long mn, long long causal, long long scale_bits) {
  enum { I = ROWS / 16, J = 2, KEYS = 32, COLUMNS = (DV + 15) / 16, KV = D > DV ? D : DV };
  __shared__ float of_q[ROWS][D + 1], of_kv[KEYS][KV + 1], of_p[ROWS][KEYS + 1];
  const float infinity = inf_f(), scale = (float)__longlong_as_double(scale_bits);
  const int t = (int)threadIdx.x, row = t / 16, column = t % 16;
  const long long down = (M + ROWS - 1) / ROWS;
  const long long first = blockIdx.x % down * ROWS, head = blockIdx.x / down % heads, batch = blockIdx.x / down / heads;
  const long long kv_head = head / (heads / kv_heads);
  q += batch * q0 + head * q1;
  k += batch * k0 + kv_head * k1;
  v += batch * v0 + kv_head * v1;
  for (int e = t; e < ROWS * D; e += 256) {
    const int r = e / D, d = e % D;
    of_q[r][d] = first + r < M ? LOAD(q[(first + r) * qm + d * qd]) * scale : 0.0f;
  }
  float sums[I][COLUMNS], most[I], total[I];
  for (int i = 0; i < I; i++) {
    most[i] = -infinity;
    total[i] = 0;
    for (int c = 0; c < COLUMNS; c++) sums[i][c] = 0;
  }
  const long long until = causal && first + ROWS < N ? first + ROWS : N;
  for (long long n0 = 0; n0 < until; n0 += KEYS) {
    __syncthreads(); /* of_kv was read */
    for (int e = t; e < KEYS * D; e += 256) {
      const int n = e / D, d = e % D;
      of_kv[n][d] = n0 + n < N ? LOAD(k[(n0 + n) * kn + d * kd]) : 0.0f;
    }
    __syncthreads();
    float scores[I][J];
    for (int i = 0; i < I; i++)
      for (int j = 0; j < J; j++) scores[i][j] = 0;
    for (int d = 0; d < D; d++)
      for (int i = 0; i < I; i++)
        for (int j = 0; j < J; j++)
          scores[i][j] = fmaf(of_q[row + 16 * i][d], of_kv[column + 16 * j][d], scores[i][j]);
    for (int i = 0; i < I; i++) {
      const long long m = first + row + 16 * i;
      float largest = most[i];
      for (int j = 0; j < J; j++) {
        const long long n = n0 + column + 16 * j;
        const bool is_seen = n < N && m < M && !(causal && n > m);
        scores[i][j] = is_seen ? MASKED(scores[i][j], batch * m0 + head * m1 + m * mm + n * mn) : -infinity;
        largest = scores[i][j] > largest ? scores[i][j] : largest;
      }
      for (int other = 8; other; other /= 2) {
        const float theirs = __shfl_xor_sync(0xffffffffu, largest, other);
        largest = theirs > largest ? theirs : largest;
      }
      const float base = largest == -infinity ? 0.0f : largest, less = expf(most[i] - base);
      float sum = 0;
      for (int j = 0; j < J; j++) {
        const float p = scores[i][j] == -infinity ? 0.0f : expf(scores[i][j] - base);
        of_p[row + 16 * i][column + 16 * j] = p;
        sum += p;
      }
      for (int other = 8; other; other /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
      most[i] = largest;
      total[i] = total[i] * less + sum;
      for (int c = 0; c < COLUMNS; c++) sums[i][c] *= less;
    }
    __syncthreads(); /* of_p is there, and of_kv was read */
    for (int e = t; e < KEYS * DV; e += 256) {
      const int n = e / DV, d = e % DV;
      of_kv[n][d] = n0 + n < N ? LOAD(v[(n0 + n) * vn + d * vd]) : 0.0f;
    }
    __syncthreads();
    for (int n = 0; n < KEYS; n++)
      for (int i = 0; i < I; i++)
        for (int c = 0; c < COLUMNS; c++)
          if (column + 16 * c < DV && of_p[row + 16 * i][n] != 0.0f) /* which takes nothing, also not of infinity */
            sums[i][c] = fmaf(of_p[row + 16 * i][n], of_kv[n][column + 16 * c], sums[i][c]);
  }
  for (int i = 0; i < I; i++) {
    const long long m = first + row + 16 * i;
    const float by = total[i] > 0 ? 1.0f / total[i] : total[i]; /* a NaN stays one */
    for (int c = 0; c < COLUMNS; c++)
      if (m < M && column + 16 * c < DV)
        out[batch * o0 + head * o1 + m * om + (column + 16 * c) * od] = STORE(total[i] == 0 ? 0.0f : sums[i][c] * by);
  }
}
#undef GROUPS
