/* sort_rows.cu: SORT and TOPK (henry/abi/extern_abi.h) of rows of up to TILE elements: a group sorts as many whole
 * rows as it has room for. The keys are those of the CPU (ops/cpu/sort/sort.c): unsigned, in the wanted order. With its
 * place behind it no two keys are equal, so that Batcher's bitonic network, which is not stable, gives the stable order.
 * Values are copied, since keys do not tell NaNs and zeros apart. sort.c says what WORD, KEY, ALL and KEY_OF are. Where
 * rows are long, the second kernel of the operation does the work, and there are no groups of this one. */
extern "C" __global__ void __launch_bounds__(256)
KERNEL(WORD *__restrict__ values, long long *__restrict__ indices, const WORD *__restrict__ x, int *__restrict__ status,
       long long outer, long long n, long long inner, long long k, long long descending, long long stable) {
  enum { TILE = 4096, THREADS = 256 };
  __shared__ KEY keys[TILE];
  __shared__ unsigned short places[TILE];
  const int t = (int)threadIdx.x;
  const long long rows = outer * inner;
  const KEY flip = descending ? ALL : 0;
  int width = 1; /* of a row in shared memory */
  while (width < n) width *= 2;
  const int room = TILE / width;
  const long long first = (long long)blockIdx.x * room;
  if (first >= rows) return; /* where sizes are dynamic there are groups for the widest rows */
  const int count = rows - first < room ? (int)(rows - first) : room, used = count * width;
  for (int e = t; e < used; e += THREADS) { /* threads side by side read side by side */
    const int r = inner == 1 ? e / width : e % count, j = inner == 1 ? e % width : e / count;
    const long long row = first + r, begin = inner == 1 ? row * n : row / inner * n * inner + row % inner;
    KEY key = ALL; /* behind all of the row, by its place */
    if (j < n) {
      const WORD word = x[begin + j * inner];
      key = KEY_OF(word) ^ flip;
    }
    keys[r * width + j] = key;
    places[r * width + j] = (unsigned short)j;
  }
  __syncthreads();
  for (int size = 2; size <= width; size *= 2)
    for (int step = size / 2; step; step /= 2) {
      for (int e = t; e < used / 2; e += THREADS) {
        const int i = 2 * e - (e & (step - 1)), j = i + step;
        const bool ascends = !(i & (width - 1) & size);
        const KEY a = keys[i], b = keys[j];
        const unsigned short p = places[i], q = places[j];
        if ((a > b || (a == b && p > q)) == ascends) {
          keys[i] = b, keys[j] = a;
          places[i] = q, places[j] = p;
        }
      }
      __syncthreads();
    }
  for (int e = t; e < used; e += THREADS) {
    const int r = inner == 1 ? e / width : e % count, j = inner == 1 ? e % width : e / count;
    if (j >= k || j >= n) continue;
    const long long row = first + r, from = inner == 1 ? row * n : row / inner * n * inner + row % inner;
    const long long to = inner == 1 ? row * k : row / inner * k * inner + row % inner;
    const long long place = places[r * width + j];
    values[to + j * inner] = x[from + place * inner];
    indices[to + j * inner] = place;
  }
}
