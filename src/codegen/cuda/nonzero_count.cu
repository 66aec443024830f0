/* nonzero_count.cu: NONZERO (henry/abi/extern_abi.h) is this kernel, which counts the true elements of each tile of 4096,
 * nonzero_scan.cu, which adds up the tiles before, and nonzero_write.cu. */
extern "C" __global__ void __launch_bounds__(256)
KERNEL(const unsigned char *__restrict__ x, long long *__restrict__ counts, int *__restrict__ status, long long elems) {
  enum { TILE = 4096, THREADS = 256 };
  __shared__ int sum;
  const int t = (int)threadIdx.x;
  int own = 0;
  if (t == 0) sum = 0;
  __syncthreads();
  for (int e = 0; e < TILE / THREADS; e++) {
    const long long j = (long long)blockIdx.x * TILE + e * THREADS + t;
    own += j < elems && x[j] != 0;
  }
  if (own) atomicAdd(&sum, own);
  __syncthreads();
  if (t == 0) counts[blockIdx.x] = sum;
}
