/* top_rows.cu: TOPK of long rows, of up to ROOM elements each. A group goes over a row once for each digit of the
 * keys (8 bits, from the first one), and counts how often each occurs behind the digits found so far; so it finds those
 * of the last element that belongs to the first k. Where keys are equal, it goes on with the digits of their places. As
 * soon as all elements with the digits so far belong to the first k, these are collected, in any order, and sorted.
 * Keys and words are those of sort_rows.cu. Of few rows there are two kernels of this text: STAGE 1 has a group for each
 * PART elements and leaves keys and places of their first k in the workspace, STAGE 2 goes over these. STAGE 0: alone. */
extern "C" __global__ void __launch_bounds__(512, 1)
KERNEL(
#if STAGE != 1
       WORD *__restrict__ values, long long *__restrict__ indices,
#endif
       const WORD *__restrict__ x,
#if STAGE != 0
       unsigned char *__restrict__ workspace,
#endif
       int *__restrict__ status,
       long long outer, long long n, long long inner, long long k, long long descending, long long stable) {
  enum { ROOM = 2048, THREADS = 512, PLACE_BITS = 32, PART = 16384, EACH = 8 };
  __shared__ unsigned sums[256], chosen[3], taken;
  const int t = (int)threadIdx.x;
  const KEY flip = descending ? ALL : 0;
#if STAGE == 0
  const long long row = blockIdx.x, begin = 0, count = n;
#else
  const long long parts = (n + PART - 1) / PART, rows = outer * inner;
#if STAGE == 1
  const long long row = blockIdx.x / parts, begin = blockIdx.x % parts * PART, left = n - begin, count = left < PART ? left : PART;
#else
  const long long row = blockIdx.x, count = parts * k;
#endif
  KEY *found_keys = (KEY *)workspace + blockIdx.x * (STAGE == 1 ? k : count);
  unsigned *found_places = (unsigned *)((KEY *)workspace + rows * parts * k) + blockIdx.x * (STAGE == 1 ? k : count);
#endif
  x += row / inner * n * inner + row % inner;
#if STAGE == 2
  auto key_at = [&](long long j) -> KEY { return found_keys[j]; };
  auto place_at = [&](long long j) -> unsigned { return found_places[j]; };
#else
  auto key_at = [&](long long j) -> KEY {
    const WORD word = x[(begin + j) * inner];
    return KEY_OF(word) ^ flip;
  };
  auto place_at = [&](long long j) -> unsigned { return (unsigned)(begin + j); };
#endif
  if (n > 0xffffffffll) *status = 1; /* places have 32 bits */
  /* digits found so far, and their masks; none where all are taken */
  KEY key_found = 0, key_mask = 0;
  unsigned place_found = 0, place_mask = 0, wanted = (unsigned)k;
  for (int level = 0; level < (BITS + PLACE_BITS) / 8 && count > k; level++) {
    const bool is_of_key = level < BITS / 8;
    const int shift = is_of_key ? BITS - 8 - 8 * level : BITS + PLACE_BITS - 8 - 8 * level;
    if (t < 256) sums[t] = 0;
    __syncthreads();
    for (long long from = t; from < count; from += EACH * THREADS) { /* several on their way */
      KEY key[EACH];
      unsigned place[EACH];
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        const long long j = from + e * THREADS;
        key[e] = j < count ? key_at(j) : (KEY)0;
        place[e] = j < count ? place_at(j) : 0;
      }
#pragma unroll
      for (int e = 0; e < EACH; e++)
        if (from + e * THREADS < count && (key[e] & key_mask) == key_found && (place[e] & place_mask) == place_found)
          atomicAdd(&sums[(is_of_key ? (unsigned)(key[e] >> shift) : place[e] >> shift) & 255], 1u);
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
#if STAGE == 1
  KEY *keys = found_keys;
  unsigned *places = found_places;
  const int width = (int)k;
#else
  __shared__ KEY keys[ROOM];
  __shared__ unsigned places[ROOM];
  int width = 1;
  while (width < k) width *= 2;
#endif
  const int kept = count < k ? (int)count : (int)k;
  for (int e = kept + t; e < width; e += THREADS) { /* behind all, by its place */
    keys[e] = ALL;
    places[e] = 0xffffffffu;
  }
  if (t == 0) taken = 0;
  __syncthreads();
  for (long long from = t; from < count; from += EACH * THREADS) {
    KEY key[EACH];
    unsigned place[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const long long j = from + e * THREADS;
      key[e] = j < count ? key_at(j) : (KEY)0;
      place[e] = j < count ? place_at(j) : 0;
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const KEY high = key[e] & key_mask;
      if (from + e * THREADS >= count || high > key_found) continue;
      if (high == key_found && (place[e] & place_mask) > place_found) continue;
      const unsigned at = atomicAdd(&taken, 1u);
      keys[at] = key[e];
      places[at] = place[e];
    }
  }
#if STAGE != 1
  values += row / inner * k * inner + row % inner;
  indices += row / inner * k * inner + row % inner;
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
#endif
}
