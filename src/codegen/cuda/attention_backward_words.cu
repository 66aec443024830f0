/* attention_backward_words.cu: what the kernels of ATTENTION_BACKWARD have in common. */
/* the parameters of the call, in order: sizes, and strides of grad, q, k, v, out, mask, and of the three results */
#define SIZES long long batches, long long heads, long long kv_heads, long long M, long long N, long long depth, long long depth_v, \
  long long g0, long long g1, long long gm, long long gd, long long q0, long long q1, long long qm, long long qd, \
  long long k0, long long k1, long long kn, long long kd, long long v0, long long v1, long long vn, long long vd, \
  long long o0, long long o1, long long om, long long od, long long m0, long long m1, long long mm, long long mn, \
  long long causal, long long scale_bits, long long to0, long long to1, long long tom, long long tod, \
  long long tk0, long long tk1, long long tkn, long long tkd, long long tv0, long long tv1, long long tvn, long long tvd
/* whether rows are copied 16 bytes at a time */
#define IS_WIDE(x, down, across) ((across) == 1 && (down) % 8 == 0 && (unsigned long long)(x) % 16 == 0)
/* Of a warp's 16 rows from `row` on, of which there are `rows`: sums[c] is the piece of 8 columns from 8 c on. */
#define STORE_ROWS(to, row, rows, columns, down, across, sums, by) { \
  const bool in_pairs = (across) == 1 && (down) % 2 == 0 && (columns) % 2 == 0 && (unsigned long long)(to) % 4 == 0; \
  _Pragma("unroll") for (int i = 0; i < 2; i++) \
    _Pragma("unroll") for (int c = 0; c < ((columns) + 15) / 16 * 2; c++) { \
      const long long at = (row) + g + 8 * i; \
      const int d = 8 * c + 2 * t; \
      const float a = sums[c][2 * i] * (by), b = sums[c][2 * i + 1] * (by); \
      ELEMENT *const place = (to) + at * (down) + d * (across); \
      if (at >= (rows) || d >= (columns)) continue; \
      if (in_pairs) *(unsigned *)place = PAIR(a, b); \
      else { \
        place[0] = STORE(a); \
        if (d + 1 < (columns)) place[across] = STORE(b); \
      } \
    } \
}
