/* top_rows.cu: TOPK of long rows, of up to ROOM elements each: a group goes over a row once for each digit of the
 * keys (8 bits, from the first one), and counts how often each occurs behind the digits found so far; so it finds those
 * of the last element that belongs to the first k. Where keys are equal, it goes on with the digits of their places. As
 * soon as all elements with the digits so far belong to the first k, these are collected, in any order, and sorted.
 * Keys and words are those of sort_rows.cu. */
extern "C" __global__ void __launch_bounds__(1024)
KERNEL(WORD *__restrict__ values, long long *__restrict__ indices, const WORD *__restrict__ x, int *__restrict__ status,
       long long outer, long long n, long long inner, long long k, long long descending, long long stable) {
  enum { ROOM = 2048, THREADS = 1024, PLACE_BITS = 32 };
  __shared__ KEY keys[ROOM];
  __shared__ unsigned places[ROOM], sums[256], chosen[3], taken;
  const int t = (int)threadIdx.x;
  const long long row = blockIdx.x;
  const KEY flip = descending ? ALL : 0;
  x += row / inner * n * inner + row % inner;
  values += row / inner * k * inner + row % inner;
  indices += row / inner * k * inner + row % inner;
  if (n > 0xffffffffll) *status = 1; /* places have 32 bits */
  /* digits found so far, and their masks */
  KEY key_found = 0, key_mask = 0;
  unsigned place_found = 0, place_mask = 0, wanted = (unsigned)k;
  for (int level = 0; level < (BITS + PLACE_BITS) / 8; level++) {
    const bool is_of_key = level < BITS / 8;
    const int shift = is_of_key ? BITS - 8 - 8 * level : BITS + PLACE_BITS - 8 - 8 * level;
    if (t < 256) sums[t] = 0;
    __syncthreads();
    for (long long j = t; j < n; j += THREADS) {
      const WORD word = x[j * inner];
      const KEY key = KEY_OF(word) ^ flip;
      if ((key & key_mask) == key_found && ((unsigned)j & place_mask) == place_found)
        atomicAdd(&sums[(is_of_key ? (unsigned)(key >> shift) : (unsigned)j >> shift) & 255], 1u);
    }
    __syncthreads();
    const unsigned own = t < 256 ? sums[t] : 0;
    for (int step = 1; step < 256; step *= 2) {
      const unsigned more = t >= step && t < 256 ? sums[t - step] : 0;
      __syncthreads();
      if (t < 256) sums[t] += more;
      __syncthreads();
    }
    if (t < 256 && sums[t] - own < wanted && sums[t] >= wanted)
      chosen[0] = (unsigned)t, chosen[1] = wanted - (sums[t] - own), chosen[2] = own;
    __syncthreads();
    if (is_of_key) {
      key_found |= (KEY)chosen[0] << shift;
      key_mask |= (KEY)255 << shift;
    } else {
      place_found |= chosen[0] << shift;
      place_mask |= 255u << shift;
    }
    wanted = chosen[1];
    if (wanted == chosen[2]) break; /* all that have these digits */
  }
  int width = 1;
  while (width < k) width *= 2;
  for (int e = t; e < width; e += THREADS) { /* behind all, by its place */
    keys[e] = ALL;
    places[e] = 0xffffffffu;
  }
  if (t == 0) taken = 0;
  __syncthreads();
  for (long long j = t; j < n; j += THREADS) {
    const WORD word = x[j * inner];
    const KEY key = KEY_OF(word) ^ flip, high = key & key_mask;
    if (high > key_found || (high == key_found && ((unsigned)j & place_mask) > place_found)) continue;
    const unsigned at = atomicAdd(&taken, 1u);
    keys[at] = key;
    places[at] = (unsigned)j;
  }
  __syncthreads();
  for (int size = 2; size <= width; size *= 2)
    for (int step = size / 2; step; step /= 2) {
      for (int e = t; e < width / 2; e += THREADS) {
        const int i = 2 * e - (e & (step - 1)), j = i + step;
        const KEY a = keys[i], b = keys[j];
        const unsigned p = places[i], q = places[j];
        if ((a > b || (a == b && p > q)) == !(i & size)) {
          keys[i] = b, keys[j] = a;
          places[i] = q, places[j] = p;
        }
      }
      __syncthreads();
    }
  for (int e = t; e < k; e += THREADS) {
    const long long place = places[e];
    values[e * inner] = x[place * inner];
    indices[e * inner] = place;
  }
}
