/* nms_keep.cu: see nms_overlaps.cu. One group goes over the boxes, 64 at a time: one thread decides which of them stay,
 * by the boxes that stay before and by each other; all threads note what these overlap, in the row n of the workspace. */
extern "C" __global__ void __launch_bounds__(256)
KERNEL(unsigned char *__restrict__ keep, unsigned long long *__restrict__ overlaps, int *__restrict__ status, long long n) {
  enum { EACH = 64, THREADS = 256 };
  __shared__ unsigned long long own[EACH], stays;
  const int t = (int)threadIdx.x;
  const long long across = (n + EACH - 1) / EACH;
  unsigned long long *dropped = overlaps + n * across;
  for (long long w = t; w < across; w += THREADS) dropped[w] = 0;
  __syncthreads();
  for (long long word = 0; word < across; word++) {
    const int count = n - word * EACH < EACH ? (int)(n - word * EACH) : EACH;
    if (t < count) own[t] = overlaps[(word * EACH + t) * across + word];
    __syncthreads();
    if (t == 0) {
      unsigned long long gone = dropped[word], left = 0;
      for (int i = 0; i < count; i++)
        if (!(gone >> i & 1)) {
          left |= 1ull << i;
          gone |= own[i];
        }
      stays = left;
    }
    __syncthreads();
    if (t < count) keep[word * EACH + t] = (unsigned char)(stays >> t & 1);
    for (long long w = word + 1 + t; w < across; w += THREADS) {
      unsigned long long gone = dropped[w];
      for (int i = 0; i < count; i++)
        if (stays >> i & 1) gone |= overlaps[(word * EACH + i) * across + w];
      dropped[w] = gone;
    }
    __syncthreads();
  }
}
