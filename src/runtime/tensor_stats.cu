/* tensor_stats.cu: the statistics of a tensor, read where it lies by the device that has it. One
 * text for CUDA C++ and OpenCL C: the words that differ are defined in front of it (device.h,
 * `load_text`), and so are the numbers of the types and THREADS, BATCH and RANK (stats_text.c).
 *
 * The first kernel reads each element once. A thread takes BATCH elements at a time, far apart, so
 * that neighbours read side by side; of these it knows the mean before it adds up the squares around
 * it. What threads and groups know is joined in a fixed order: the same tensor gives the same bits.
 * The formulas are those of tensor_stats.c. */
typedef struct part {
  i64 finite, nan_count, inf_count;
  i64 first_bad; /* in the order of the walk; -1: none */
  double lo, hi, mean, squares;
  double bad_value; /* of the first bad one */
} part;

FN int is_finite(double x) { return (AS_U64(x) >> 52 & 2047) != 2047; }
FN int is_nan(double x) { return !is_finite(x) && (AS_U64(x) << 12) != 0; }

FN void clear(part *p) {
  p->finite = p->nan_count = p->inf_count = 0;
  p->first_bad = -1;
  p->lo = AS_F64((u64)2047 << 52);
  p->hi = AS_F64((u64)4095 << 52);
  p->mean = p->squares = p->bad_value = 0;
}

FN void join(part *to, part more) {
  to->nan_count += more.nan_count;
  to->inf_count += more.inf_count;
  if (more.first_bad >= 0 && (to->first_bad < 0 || more.first_bad < to->first_bad)) {
    to->first_bad = more.first_bad;
    to->bad_value = more.bad_value;
  }
  if (!more.finite) return;
  const double count = (double)to->finite + (double)more.finite;
  const double apart = more.mean - to->mean, share = (double)more.finite / count;
  to->squares += more.squares;
  if (to->finite) to->squares += apart * apart * (double)to->finite * share;
  if (!to->finite) to->mean = more.mean;
  else if (is_finite(apart)) to->mean += apart * share;
  else to->mean = to->mean * (1 - share) + more.mean * share;
  to->finite += more.finite;
  if (more.lo < to->lo) to->lo = more.lo;
  if (more.hi > to->hi) to->hi = more.hi;
}

/* ---- elements as numbers ---- */

/* By the bits: a device may take denormal numbers for 0, and has no numbers of 16 bits perhaps. */
FN double widen(u32 bits, int exponent_bits, int mantissa_bits) {
  const u32 top = (1u << exponent_bits) - 1, e = bits >> mantissa_bits & top;
  const u32 m = bits & ((1u << mantissa_bits) - 1);
  const u64 sign = (u64)(bits >> (exponent_bits + mantissa_bits) & 1) << 63;
  const int bias = (int)(top >> 1);
  if (e == 0) {
    const double least = AS_F64((u64)(1024 - bias - mantissa_bits) << 52);
    return sign ? -((double)m * least) : (double)m * least;
  }
  const u64 wide = e == top ? (u64)2047 : (u64)((int)e - bias + 1023);
  return AS_F64(sign | wide << 52 | (u64)m << (52 - mantissa_bits));
}

FN double number(i64 type, GLOBAL const u8 *x, i64 at) {
  switch (type) {
  case F64: return AS_F64(((GLOBAL const u64 *)x)[at]);
  case F32: return widen(((GLOBAL const u32 *)x)[at], 8, 23);
  case F16: return widen(((GLOBAL const u16 *)x)[at], 5, 10);
  case BF16: return widen(((GLOBAL const u16 *)x)[at], 8, 7);
  case I64: return (double)((GLOBAL const i64 *)x)[at];
  case I32: return (double)((GLOBAL const int *)x)[at];
  case I16: return (double)((GLOBAL const short *)x)[at];
  case I8: return (double)((GLOBAL const signed char *)x)[at];
  case BOOL: return x[at] ? 1.0 : 0.0;
  default: return (double)x[at];
  }
}

/* ---- a batch ---- */

/* Numbers `pitch` apart in the walk. `wanted`: bit 0: the first bad one may be infinite, bit 1: NaN.
 * Eighths keep the sum of the largest ones finite. */
FN void add(const double *v, int count, i64 first, i64 pitch, i64 wanted, part *to) {
  part here;
  double sum = 0;
  clear(&here);
  for (int k = 0; k < count; k++) {
    if (!is_finite(v[k])) {
      if (here.first_bad < 0 && (wanted >> is_nan(v[k]) & 1))
        here.first_bad = first + k * pitch, here.bad_value = v[k];
      if (is_nan(v[k])) here.nan_count++;
      else here.inf_count++;
      continue;
    }
    here.finite++;
    sum += v[k] * 0.125;
    if (v[k] < here.lo) here.lo = v[k];
    if (v[k] > here.hi) here.hi = v[k];
  }
  if (here.finite) {
    here.mean = sum * (8.0 / (double)here.finite);
    if (here.mean < here.lo) here.mean = here.lo;
    if (here.mean > here.hi) here.mean = here.hi;
    for (int k = 0; k < count; k++)
      if (is_finite(v[k])) here.squares += (v[k] - here.mean) * (v[k] - here.mean);
  }
  join(to, here);
}

/* What all threads of a group know, in the first one's place. */
FN void join_group(LOCAL part *shared, int t) {
  for (int width = THREADS / 2; width > 0; width /= 2) {
    BARRIER;
    if (t < width) {
      part own = shared[t];
      join(&own, shared[t + width]);
      shared[t] = own;
    }
  }
  BARRIER;
}

KERNEL void hn_tensor_stats(MEMORY(x), MEMORY(parts), MEMORY(status), i64 type, i64 elems,
                            i64 groups, i64 wanted, i64 rank, i64 n0, i64 n1, i64 n2, i64 n3, i64 n4, i64 n5,
                            i64 n6, i64 n7, i64 s0, i64 s1, i64 s2, i64 s3, i64 s4, i64 s5, i64 s6,
                            i64 s7) {
  SHARED part shared[THREADS];
  GLOBAL const u8 *data = BEGIN(x);
  const i64 size[RANK] = {n0, n1, n2, n3, n4, n5, n6, n7};
  const i64 stride[RANK] = {s0, s1, s2, s3, s4, s5, s6, s7};
  const i64 pitch = groups * THREADS;
  const int is_small = elems < ((i64)1 << 31); /* divisions of 64 bits are slow */
  const int t = THREAD;
  part own;
  clear(&own);
  for (i64 first = (i64)GROUP * THREADS + t; first < elems; first += pitch * BATCH) {
    double v[BATCH];
    int count = 0;
    for (i64 at = first; count < BATCH && at < elems; at += pitch) {
      i64 rest = at, offset = 0;
      for (int d = (int)rank - 1; d > 0; d--) {
        const i64 next = is_small ? (i64)((u32)rest / (u32)size[d]) : rest / size[d];
        offset += (rest - next * size[d]) * stride[d];
        rest = next;
      }
      v[count++] = number(type, data, offset + rest * stride[0]);
    }
    add(v, count, first, pitch, wanted, &own);
  }
  shared[t] = own;
  join_group(shared, t);
  if (t == 0) ((GLOBAL part *)BEGIN(parts))[GROUP] = shared[0];
}

/* One group: what all groups know, behind what each knows. */
KERNEL void hn_tensor_stats_join(MEMORY(parts), MEMORY(status), i64 groups) {
  SHARED part shared[THREADS];
  GLOBAL part *known = (GLOBAL part *)BEGIN(parts);
  const int t = THREAD;
  part own;
  clear(&own);
  for (i64 k = t; k < groups; k += THREADS) join(&own, known[k]);
  shared[t] = own;
  join_group(shared, t);
  if (t == 0) known[groups] = shared[0];
}
