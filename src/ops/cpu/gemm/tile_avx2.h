/* tile_avx2.h: four steps along k of a register tile of 6 or 5 rows and two vectors, in assembler.
 * Included by kernels_body.h.
 *
 * Compilers move accumulators from register to register here. Alone on its core the loop is bound
 * by its multiplications either way; where another guest of the host shares the core's units, all
 * that is executed counts (docs/contractions.md). The sums are those of the loops in C that do the
 * rest, to the bit. */

/* o: bytes from the address `at` on, which is of b. */
#define TILE_LOAD_B(o, at) "vmovups " #o at ", %%ymm12\n\tvmovups " #o "+32" at ", %%ymm13\n\t"
#define TILE_LOAD_A(a, x)  "vbroadcastss " #a "(%[a]), %%" #x "\n\t"
#define TILE_ADD(row, x)                                                                           \
    "vfmadd231ps %%ymm12, %%" #x ", %[c" #row "0]\n\tvfmadd231ps %%ymm13, %%" #x ", %[c" #row      \
    "1]\n\t"
#define TILE_ADD_2(a, r, s)                                                                        \
    TILE_LOAD_A(a, ymm14) TILE_LOAD_A(a + 4, ymm15) TILE_ADD(r, ymm14) TILE_ADD(s, ymm15)
#define TILE_STEP_5(a, o, at)                                                                      \
    TILE_LOAD_B(o, at)                                                                             \
    TILE_ADD_2(a, 0, 1) TILE_ADD_2(a + 8, 2, 3) TILE_LOAD_A(a + 16, ymm14) TILE_ADD(4, ymm14)
#define TILE_STEP_6(a, o, at)                                                                      \
    TILE_LOAD_B(o, at) TILE_ADD_2(a, 0, 1) TILE_ADD_2(a + 8, 2, 3) TILE_ADD_2(a + 16, 4, 5)
#define TILE_FOUR(step)                                                                            \
    step(0, 0, "(%[b])") step(24, 64, "(%[b])") step(48, 128, "(%[b])") step(72, 192, "(%[b])")
#define TILE_FOUR_APART(step)                                                                      \
    step(0, 0, "(%[b])") step(24, 0, "(%[b],%[one])") step(48, 0, "(%[b],%[one],2)")               \
        step(72, 0, "(%[b],%[three])")

#define TILE_ROW(i)  [c##i##0] "+x"(acc[i][0]), [c##i##1] "+x"(acc[i][1])
#define TILE_ROWS_5  TILE_ROW(0), TILE_ROW(1), TILE_ROW(2), TILE_ROW(3), TILE_ROW(4)
#define TILE_CHANGES "xmm12", "xmm13", "xmm14", "xmm15", "memory"

/* a: rows of HN_TILE_ROWS floats, 6. b: rows of TILE_COLS. */
HN_INLINE void tile_four_steps(vec acc[][2], const float *a, const float *b, const int rows) {
    if (rows == 6)
        __asm__(TILE_FOUR(TILE_STEP_6)
                : TILE_ROWS_5, TILE_ROW(5)
                : [a] "r"(a), [b] "r"(b)
                : TILE_CHANGES);
    else __asm__(TILE_FOUR(TILE_STEP_5) : TILE_ROWS_5 : [a] "r"(a), [b] "r"(b) : TILE_CHANGES);
}

/* b: rows b_k floats apart. */
HN_INLINE void tile_four_steps_apart(vec acc[][2], const float *a, const float *b, int64_t b_k,
                                     const int rows) {
    const int64_t one = b_k * 4, three = b_k * 12;
    if (rows == 6)
        __asm__(TILE_FOUR_APART(TILE_STEP_6)
                : TILE_ROWS_5, TILE_ROW(5)
                : [a] "r"(a), [b] "r"(b), [one] "r"(one), [three] "r"(three)
                : TILE_CHANGES);
    else
        __asm__(TILE_FOUR_APART(TILE_STEP_5)
                : TILE_ROWS_5
                : [a] "r"(a), [b] "r"(b), [one] "r"(one), [three] "r"(three)
                : TILE_CHANGES);
}
