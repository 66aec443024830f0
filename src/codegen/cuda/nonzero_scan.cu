/* nonzero_scan.cu: see nonzero_count.cu. One group; each thread has a range of the tiles. The program has counted before,
 * so that the result has its size: another sum is an error. */
extern "C" __global__ void __launch_bounds__(1024)
KERNEL(long long *__restrict__ counts, int *__restrict__ status, long long elems, long long count) {
  enum { TILE = 4096, THREADS = 1024 };
  __shared__ long long sums[THREADS];
  const int t = (int)threadIdx.x;
  const long long tiles = (elems + TILE - 1) / TILE, each = (tiles + THREADS - 1) / THREADS;
  const long long from = t * each < tiles ? t * each : tiles, to = from + each < tiles ? from + each : tiles;
  long long own = 0;
  for (long long tile = from; tile < to; tile++) own += counts[tile];
  sums[t] = own;
  __syncthreads();
  for (int step = 1; step < THREADS; step *= 2) {
    const long long more = t >= step ? sums[t - step] : 0;
    __syncthreads();
    sums[t] += more;
    __syncthreads();
  }
  long long before = sums[t] - own;
  for (long long tile = from; tile < to; tile++) {
    const long long next = counts[tile];
    counts[tile] = before;
    before += next;
  }
  if (t == THREADS - 1 && sums[t] != count) *status = 1;
}
