/* nonzero_write.cu: see nonzero_count.cu. A thread has 16 elements side by side. COORDINATES(to, j) writes those of the
 * element j (select.c). */
extern "C" __global__ void __launch_bounds__(256)
KERNEL(long long *__restrict__ positions, const unsigned char *__restrict__ x, const long long *__restrict__ counts,
       int *__restrict__ status, long long elems, long long count, long long s0, long long s1, long long s2, long long s3,
       long long s4, long long s5, long long s6, long long s7, long long s8, long long s9, long long s10, long long s11,
       long long s12, long long s13, long long s14, long long s15) {
  enum { TILE = 4096, EACH = 16, THREADS = 256 };
  __shared__ int sums[THREADS];
  const int t = (int)threadIdx.x;
  const long long begin = (long long)blockIdx.x * TILE + t * EACH;
  int own = 0;
  for (int e = 0; e < EACH; e++) own += begin + e < elems && x[begin + e] != 0;
  sums[t] = own;
  __syncthreads();
  for (int step = 1; step < THREADS; step *= 2) {
    const int more = t >= step ? sums[t - step] : 0;
    __syncthreads();
    sums[t] += more;
    __syncthreads();
  }
  long long at = counts[blockIdx.x] + sums[t] - own;
  for (long long j = begin; j < begin + EACH && j < elems; j++) {
    if (x[j] == 0) continue;
    if (at >= count) break;
    long long *to = positions + at++ * RANK;
    COORDINATES(to, j)
  }
}
