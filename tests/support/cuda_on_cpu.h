/* cuda_on_cpu.h: what stands in front of a text in CUDA C++ when g++ compiles it: see
 * cuda_on_cpu.c. Only for such texts. */
#ifndef HN_TESTS_CUDA_ON_CPU_H
#define HN_TESTS_CUDA_ON_CPU_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
/* Groups run one after the other. The host keeps what the blocks of a cluster have here. */
#define __shared__ static __attribute__((section("cuda_shared")))

/* Set by the host. */
struct cuda_number {
    unsigned x, y; /* y: 0 */
};
extern "C" {
cuda_number blockIdx, threadIdx;
void (*cuda_wait)();
void (*cuda_wait_in_warp)();
uint64_t (*cuda_exchange)(uint64_t value, uint32_t other, uint32_t mask);
/* Shows the other threads of the warp six words, and gets theirs. */
void (*cuda_show)(const unsigned own[6], unsigned shown[6][32]);
/* Dynamic shared memory: as much as a group may have, and what nothing may be written to. */
alignas(1024) unsigned char cuda_memory[(227 << 10) + 1024];
const void *(*cuda_far)(const void *shared, uint32_t block);
/* Shared memory: all of it, set by the linker; null where there is none. */
extern char __start_cuda_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_cuda_shared[] __attribute__((weak, visibility("hidden")));
char *cuda_shared_ends[2] = {__start_cuda_shared, __stop_cuda_shared};
}
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

/* Of one access of several elements, which a GPU refuses otherwise. */
static inline void cuda_check_aligned(const void *at, size_t bytes) {
    if ((uintptr_t)at % bytes == 0) return;
    fprintf(stderr, "cuda on the cpu: an access of %zu bytes is not aligned (%p)\n", bytes, at);
    abort();
}

static inline void __syncthreads() { cuda_wait(); }

template <class T> static T __shfl_xor_sync(unsigned mask, T value, int other) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = cuda_exchange(bits, (uint32_t)other, mask);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Of the thread that is so many before; of the thread itself where the warp has none. */
template <class T> static T __shfl_up_sync(unsigned mask, T value, int before) {
    const int lane = (int)(threadIdx.x % 32), from = lane < before ? lane : lane - before;
    return __shfl_xor_sync(mask, value, lane ^ from);
}

/* Bit k: lane k of the warp has the same value. */
static inline unsigned __match_any_sync(unsigned mask, unsigned value) {
    const int lane = (int)(threadIdx.x % 32);
    unsigned same = 0;
    for (int other = 0; other < 32; other++)
        same |= (unsigned)(__shfl_xor_sync(mask, value, other) == value) << (lane ^ other);
    return same;
}
/* Bit k: lane k of the warp says so. */
static inline unsigned __ballot_sync(unsigned mask, bool says) {
    const int lane = (int)(threadIdx.x % 32);
    unsigned all = 0;
    for (int other = 0; other < 32; other++)
        all |= (unsigned)__shfl_xor_sync(mask, (int)says, other) << (lane ^ other);
    return all;
}
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline void __syncwarp() { cuda_wait_in_warp(); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }

/* One thread runs at a time. */
template <class T> static T atomicAdd(T *at, T x) {
    const T before = *at;
    *at += x;
    return before;
}

template <class T> static T atomicMin(T *at, T x) {
    const T before = *at;
    if (x < before) *at = x;
    return before;
}
template <class T> static T atomicMax(T *at, T x) {
    const T before = *at;
    if (x > before) *at = x;
    return before;
}
template <class T> static T atomicCAS(T *at, T was, T next) {
    const T before = *at;
    if (before == was) *at = next;
    return before;
}

template <class To, class From> static To cuda_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline float __int_as_float(int x) { return cuda_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return cuda_bits<float>(x); }
static inline int __float_as_int(float x) { return cuda_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return cuda_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return cuda_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return cuda_bits<long long>(x); }

/* What PTX does: round to nearest, ties to even; a NaN is 0x7fff. */
static inline unsigned short cvt_bf16_f32(float x) {
    const unsigned u = __float_as_uint(x);
    return (unsigned short)(x != x ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}
/* Off by 1 ulp, as the GPU's may be: of every other number. */
static inline float rcp_f32(float x) {
    const float y = 1 / x;
    return fabsf(y) < 0x1p-126f ? copysignf(0, y)
           : x - x != 0         ? y
                                : __int_as_float(__float_as_int(y) - (__float_as_int(x) >> 2 & 1));
}
/* Nothing is contracted with what comes out of these. */
static inline float __fmul_rn(float x, float y) { return __builtin_assoc_barrier(x * y); }
static inline double __dmul_rn(double x, double y) { return __builtin_assoc_barrier(x * y); }
static inline float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
static inline float cvt_f32_f16(unsigned short h) {
    _Float16 x;
    memcpy(&x, &h, sizeof x);
    return (float)x;
}
static inline unsigned short cvt_f16_f32(float x) {
    const _Float16 h = (_Float16)x;
    unsigned short bits;
    memcpy(&bits, &h, sizeof bits);
    return x != x ? 0x7fff : bits;
}

/* mma.m16n8k16: every thread of a warp sees what all hold, and makes its own four numbers. Written
 * from NVIDIA's PTX documentation. */
static inline void mma_on_cpu(float *c, const unsigned *a, const unsigned *b, bool is_bf16) {
    const int lane = (int)(threadIdx.x % 32);
    const unsigned own[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    unsigned held[6][32];
    cuda_show(own, held);
    /* number `at` of the pair that a register of a thread holds */
    auto number = [&](int r, int thread, int at) {
        const unsigned short bits = (unsigned short)(held[r][thread] >> 16 * at);
        return is_bf16 ? __uint_as_float((unsigned)bits << 16) : cvt_f32_f16(bits);
    };
    for (int r = 0; r < 4; r++) {
        const int row = lane / 4 + r / 2 * 8, column = lane % 4 * 2 + r % 2;
        float sum = c[r];
        for (int k = 0; k < 16; k++) {
            const float x = number(row / 8 + k / 8 * 2, row % 8 * 4 + k % 8 / 2, k % 2);
            const float y = number(4 + k / 8, column * 4 + k % 8 / 2, k % 2);
            sum += x * y;
        }
        c[r] = sum;
    }
}

/* ldmatrix: each thread reads the row that it tells, and gets two numbers of each matrix. */
static inline void pieces_on_cpu(unsigned *to, const void *row, bool is_across) {
    const int g = (int)(threadIdx.x % 32) / 4, t = (int)threadIdx.x % 4;
    unsigned own[6] = {0}, held[6][32];
    if ((uintptr_t)row % 16) __builtin_trap();
    memcpy(own, row, 16);
    cuda_show(own, held);
    auto number = [&](int matrix, int r, int c) {
        return held[c / 2][8 * matrix + r] >> 16 * (c % 2) & 0xffff;
    };
    for (int k = 0; k < 4; k++)
        to[k] = is_across ? number(k, 2 * t, g) | number(k, 2 * t + 1, g) << 16
                          : number(k, g, 2 * t) | number(k, g, 2 * t + 1) << 16;
}

/* ---- copies that are under way ----
 *
 * They come as late as they may, when the thread waits for them: until then there are NaNs. So both
 * a wait that is missing and a copy over what others still read come out wrong. */
struct cuda_copy {
    void *to;
    const void *from;
    int bytes;
};
struct cuda_copies { /* of a thread */
    cuda_copy of[64];
    int ends[64]; /* of lots that are closed: how many copies */
    int count, lots;
};
static cuda_copies cuda_under_way[1024];

static inline void copy_on_cpu(void *to, const void *from, int bytes) {
    cuda_copies *c = &cuda_under_way[threadIdx.x];
    if (c->count == 64 || (uintptr_t)to % 16 || (bytes && (uintptr_t)from % 16)) __builtin_trap();
    c->of[c->count++] = {to, from, bytes};
    memset(to, 0xff, 16);
}
static inline void copies_end_on_cpu() {
    cuda_copies *c = &cuda_under_way[threadIdx.x];
    if (c->lots == 64) __builtin_trap();
    c->ends[c->lots++] = c->count;
}
/* Until all lots but so many are there. */
static inline void copies_wait_on_cpu(int but) {
    cuda_copies *c = &cuda_under_way[threadIdx.x];
    const int lots = c->lots > but ? c->lots - but : 0, done = lots ? c->ends[lots - 1] : 0;
    for (int k = 0; k < done; k++) {
        memset(c->of[k].to, 0, 16);
        memcpy(c->of[k].to, c->of[k].from, (size_t)c->of[k].bytes);
    }
    memmove(c->of, c->of + done, (size_t)(c->count - done) * sizeof *c->of);
    c->count -= done;
    c->lots -= lots;
    for (int k = 0; k < c->lots; k++) c->ends[k] = c->ends[k + lots] - done;
}

/* Calls a kernel with the arguments at these addresses; those behind the last one are left out. */
template <size_t... Numbers> struct cuda_numbers {};
template <size_t Count, size_t... Rest>
struct cuda_count : cuda_count<Count - 1, Count - 1, Rest...> {};
template <size_t... Rest> struct cuda_count<0, Rest...> { typedef cuda_numbers<Rest...> type; };
template <class... Arguments, size_t... Numbers>
static void call_by(void (*kernel)(Arguments...), void **a, cuda_numbers<Numbers...>) {
    kernel(*(Arguments *)a[Numbers]...);
}
template <class... Arguments> static unsigned count_arguments(void (*)(Arguments...)) {
    return sizeof...(Arguments);
}
/* What a launch promises of an argument: an address of elements is a multiple of their bytes, and
 * scratch memory, bytes behind the status word and sizes, one of 64. */
template <class T> struct cuda_address {
    enum { align = 0, is_bytes = false };
};
template <class T> struct cuda_address<T *> {
    enum { align = alignof(T), is_bytes = false };
};
template <> struct cuda_address<unsigned char *> {
    enum { align = 1, is_bytes = true };
};
template <class... Arguments> static const unsigned *list_alignments(void (*)(Arguments...)) {
    static unsigned all[] = {cuda_address<Arguments>::align..., 0};
    const bool are_bytes[] = {cuda_address<Arguments>::is_bytes..., false};
    const unsigned count = sizeof...(Arguments);
    if (count && are_bytes[count - 1]) all[count - 1] = 64;
    return all;
}
template <class... Arguments> static void call(void (*kernel)(Arguments...), void **a) {
    cuda_under_way[threadIdx.x].count = cuda_under_way[threadIdx.x].lots = 0;
    call_by(kernel, a, typename cuda_count<sizeof...(Arguments)>::type());
}

#endif
