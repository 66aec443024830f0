/* cuda_on_cpu.c: opencl_host.h for the text of CUDA C++: kernels that are printed for a GPU run on
 * the CPU, so that their text is tested where there is none.
 *
 * g++ compiles the text behind a few definitions (cuda_on_cpu.h). Groups run one after the other.
 * Each thread of a group is a coroutine, which lets the others go on where it waits for them: at a
 * barrier, and where threads of a warp exchange registers. Threads that wait for the group go on once
 * no thread waits for its warp any more. They go on in ascending and descending order by
 * turns, so that what a barrier is missing for comes out wrong. Memory is that of the
 * test, without copies: arguments may be parts of one buffer. The blocks of a cluster run as one
 * group of threads; what each has in shared memory is put back before one of its threads goes on.
 *
 * Copies that go on beside a thread (cp.async) come when it waits for them: see cuda_on_cpu.h.
 *
 * What this cannot show: inline PTX, for which there are functions in C here, the functions of
 * CUDA's library, where glibc's are taken, and what a compiler for GPUs makes of the text. */
#include "support/cuda_texts.h"
#include "support/opencl_host.h"

#include "base/file.h"
#include "base/str.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if !defined __x86_64__
#error "coroutines are switched by code for x86-64"
#endif

enum {
    BLOCK_MAX = 1024,
    BLOCKS_MAX = 8,
    THREADS_MAX = BLOCK_MAX * BLOCKS_MAX,
    STACK_BYTES = 64 << 10,
    MAX_ARGUMENTS = 256,
    WARP = 32,
    ROUNDS = 2,
    WORDS = 6,
    GUARD_BYTES = 1024,
    UNTOUCHED = 0xa5,
    SHARED_MAX = 227 << 10
};

struct opencl_host {
    char folder[256]; /* for texts and objects */
    uint32_t count;   /* of programs so far */
    char *stacks;
};

struct opencl_program {
    opencl_host *host;
    void *object;
};

/* ---- coroutines ---- */

/* Keeps the registers of the one that runs in *from, and goes on with another. */
void cuda_on_cpu_switch(void **from, void *to);
__asm__(".text\n.globl cuda_on_cpu_switch\n.type cuda_on_cpu_switch, @function\n"
        "cuda_on_cpu_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size cuda_on_cpu_switch, .-cuda_on_cpu_switch\n");

/* A block, or the blocks of a cluster. */
typedef struct group {
    void (*call)(void **arguments);
    void **arguments;
    uint32_t threads, now;                      /* of all blocks; the thread that runs */
    uint32_t block_threads, first_block, block; /* the last: whose shared memory is in its place */
    char *shared, *kept;                        /* the place; of each block what it has there */
    size_t own_bytes;
    void *own; /* where this file goes on */
    void *at[THREADS_MAX];
    bool is_done[THREADS_MAX], waits_for_warp[THREADS_MAX]; /* false: for the group */
    uint32_t exchanges[THREADS_MAX];                        /* of each thread so far */
    uint64_t exchanged[ROUNDS][THREADS_MAX]; /* what threads of a warp show each other */
    unsigned shown[ROUNDS][THREADS_MAX][WORDS];
    unsigned *thread_number, *block_number; /* threadIdx.x, blockIdx.x */
    uint8_t *memory;                        /* dynamic shared memory */
    size_t shared_bytes;
    bool masks_wrongly; /* a shuffle names threads that there are not, or leaves some out */
} group;

static group *running;

static void wait_here(bool for_warp) {
    group *g = running;
    g->waits_for_warp[g->now] = for_warp;
    cuda_on_cpu_switch(&g->at[g->now], g->own);
}

static void wait_for_group(void) { wait_here(false); }
static void wait_for_warp(void) { wait_here(true); }

/* A thread writes for the next round while others may still read those of the last one. */
static uint64_t exchange(uint64_t value, uint32_t other, uint32_t mask) {
    group *g = running;
    const uint32_t own = g->now, round = g->exchanges[own]++ % ROUNDS, from = own ^ other,
                   rest = g->threads - own / WARP * WARP;
    g->masks_wrongly |= mask != (rest < WARP ? (1u << rest) - 1 : UINT32_MAX);
    g->exchanged[round][own] = value;
    wait_for_warp();
    return from / WARP == own / WARP && from < g->threads ? g->exchanged[round][from] : value;
}

/* All threads of a warp do the same number of both. */
static void show(const unsigned own[WORDS], unsigned shown[WORDS][WARP]) {
    group *g = running;
    const uint32_t round = g->exchanges[g->now]++ % ROUNDS, first = g->now / WARP * WARP;
    memcpy(g->shown[round][g->now], own, sizeof g->shown[round][g->now]);
    wait_for_warp();
    for (uint32_t k = 0; k < WARP && first + k < g->threads; k++)
        for (uint32_t w = 0; w < WORDS; w++) shown[w][k] = g->shown[round][first + k][w];
}

/* Where another block has what this one has at an address of shared memory. */
static const void *find_far(const void *shared, uint32_t block) {
    const group *g = running;
    const size_t at = (size_t)((const char *)shared - g->shared);
    if (at >= g->own_bytes || block >= g->threads / g->block_threads) abort();
    return block == g->block ? shared : g->kept + block * g->own_bytes + at;
}

static void enter_block(group *g, uint32_t block) {
    *g->block_number = g->first_block + block;
    if (block == g->block) return;
    memcpy(g->kept + g->block * g->own_bytes, g->shared, g->own_bytes);
    memcpy(g->shared, g->kept + block * g->own_bytes, g->own_bytes);
    g->block = block;
}

static void run_thread(void) {
    group *g = running;
    g->call(g->arguments);
    g->is_done[g->now] = true;
    wait_for_group();
}

/* As cuda_on_cpu_switch leaves a stack: six registers, and where to go on. */
static void begin_thread(group *g, uint32_t k, char *stack) {
    void **top = (void **)(void *)(stack + STACK_BYTES);
    *--top = NULL; /* aligned as behind a call */
    *--top = (void *)(uintptr_t)run_thread;
    for (int r = 0; r < 6; r++) *--top = NULL;
    g->at[k] = top;
    g->is_done[k] = g->waits_for_warp[k] = false;
    g->exchanges[k] = 0;
}

/* Threads that wait for their warps. */
static uint32_t count_in_warps(const group *g) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < g->threads; k++) count += g->waits_for_warp[k];
    return count;
}

/* Whether a thread waits for its warp while others of that do not. */
static bool has_parted_warps(const group *g) {
    for (uint32_t k = 0; k < g->threads; k++)
        if (g->waits_for_warp[k] != g->waits_for_warp[k / WARP * WARP]) return true;
    return false;
}

/* One turn of all threads, or of those that wait for their warps, up to where each waits. Returns
 * how many are done. */
static uint32_t run_turn(group *g, bool descends) {
    const bool in_warps = count_in_warps(g) > 0;
    uint32_t done = 0;
    for (uint32_t k = 0; k < g->threads; k++) {
        g->now = descends ? g->threads - 1 - k : k;
        if (in_warps && !g->waits_for_warp[g->now]) {
            done += g->is_done[g->now];
            continue;
        }
        *g->thread_number = g->now % g->block_threads;
        enter_block(g, g->now / g->block_threads);
        cuda_on_cpu_switch(&g->own, g->at[g->now]);
        done += g->is_done[g->now];
    }
    return done;
}

/* Dynamic shared memory: NaNs, and what is the group's no more. */
static void begin_memory(const group *g) {
    memset(g->memory, 0xff, g->shared_bytes);
    memset(g->memory + g->shared_bytes, UNTOUCHED, GUARD_BYTES);
}

static hn_status check_memory(const group *g) {
    for (uint32_t k = 0; k < GUARD_BYTES; k++)
        if (g->memory[g->shared_bytes + k] != UNTOUCHED)
            return HN_ERROR(HN_INTERNAL, "byte %zu of %zu bytes of shared memory was written",
                            g->shared_bytes + k, g->shared_bytes);
    return NULL;
}

static hn_status run_group(group *g, char *stacks) {
    uint32_t done = 0;
    bool is_parted = false;
    begin_memory(g);
    for (uint32_t k = 0; k < g->threads; k++) begin_thread(g, k, stacks + (size_t)k * STACK_BYTES);
    running = g;
    for (bool descends = false; !is_parted && (!done || count_in_warps(g)); descends = !descends) {
        done = run_turn(g, descends);
        is_parted = has_parted_warps(g);
    }
    if (g->masks_wrongly)
        return HN_ERROR(HN_INTERNAL, "a shuffle is not for the threads that its warp has");
    if (is_parted) return HN_ERROR(HN_INTERNAL, "threads of a warp wait for others that do not");
    if (done == g->threads) return check_memory(g);
    return HN_ERROR(HN_INTERNAL, "%u threads of %u come to a barrier that the others do not",
                    g->threads - done, g->threads);
}

/* ---- the host ---- */

const char *opencl_host_target(void) { return "sm_90a"; }
const char *opencl_host_device(const opencl_host *host) {
    (void)host;
    return "CUDA C++ on the CPU";
}
size_t opencl_host_local_bytes(const opencl_host *host) {
    (void)host;
    return 48 << 10;
}
size_t opencl_host_group_threads(const opencl_host *host) {
    (void)host;
    return BLOCK_MAX;
}

hn_status opencl_host_open(opencl_host **out) {
    opencl_host *h = calloc(1, sizeof *h);
    const char *tmp = getenv("TMPDIR");
    if (!h || !(h->stacks = malloc((size_t)THREADS_MAX * STACK_BYTES))) {
        free(h);
        return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for %d stacks", THREADS_MAX);
    }
    snprintf(h->folder, sizeof h->folder, "%s/henry-cuda-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (mkdtemp(h->folder)) {
        *out = h;
        return NULL;
    }
    hn_status status = HN_ERROR(HN_IO, "cannot make the folder '%s'", h->folder);
    opencl_host_close(h);
    return status;
}

int opencl_host_open_or_skip(opencl_host **out) {
    hn_status status = opencl_host_open(out);
    if (!status) return -1;
    printf("%s\n0 passed, 1 failed\n", hn_status_message(status));
    hn_status_free(status);
    return 1;
}

void opencl_host_close(opencl_host *h) {
    if (!h) return;
    rmdir(h->folder);
    free(h->stacks);
    free(h);
}

/* ---- programs ---- */

#define MMA_TEXT(type)                                                                             \
    "asm(\"mma.sync.aligned.m16n8k16.row.col.f32." type "." type                                   \
    ".f32 {%0, %1, %2, %3}, {%4, %5, "                                                             \
    "%6, %7}, {%8, %9}, {%0, %1, %2, %3};\" : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\""    \
    "(c[3]) : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));"

#define PIECES_TEXT(kind)                                                                          \
    "asm volatile(\"ldmatrix.sync.aligned.m8n8.x4" kind                                            \
    ".shared.b16 {%0, %1, %2, %3}, [%4];\" : \"=r\"(to[0]), \"=r\"(to[1]), \"=r\"(to[2]), \"=r"    \
    "\"(to[3]) : \"r\"((unsigned)__cvta_generic_to_shared(row)) : \"memory\");"

#define FAR_TEXT(kind, letter)                                                                     \
    "asm volatile(\"{ .reg .u64 p; .reg .u32 a; cvta.to.shared.u64 p, %1; cvt.u32.u64 a, p; "      \
    "mapa.shared::cluster.u32 a, a, %2; ld.shared::cluster." kind " %0, [a]; }\" : \"=" letter     \
    "\"(y) : \"l\"(x), \"r\"(block) : \"memory\");"
static const char far_c[] = "memcpy(&y, cuda_far(x, (uint32_t)block), sizeof y);";

/* Inline PTX and other words, and what they do. */
static const char *const ptx[][2] = {
    {"void move(void *to, const void *from, P) { *(P *)to = *(const P *)from; }",
     "void move(void *to, const void *from, P) { cuda_check_aligned(to, alignof(P)); "
     "cuda_check_aligned(from, alignof(P)); *(P *)to = *(const P *)from; }"},
    {"extern __shared__ uint4 memory[];", "uint4 *const memory = (uint4 *)cuda_memory;"},
    {"asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(b) : \"f\"(x));", "b = cvt_bf16_f32(x);"},
    {"asm(\"mov.b32 %0, {%1, %2};\" : \"=f\"(x) : \"h\"((unsigned short)0), \"h\"(b));",
     "x = __uint_as_float((unsigned)b << 16);"},
    {"asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(x), \"f\"(0.0f));",
     "y = (unsigned)cvt_bf16_f32(x) << 16;"},
    {"asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));", "y = rcp_f32(x);"},
    {"asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));",
     "y = a < b || a != a ? a : b;"},
    {"asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));",
     "y = a > b || a != a ? a : b;"},
    {"asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(h));", "x = cvt_f32_f16(h);"},
    {"asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x));", "h = cvt_f16_f32(x);"},
    {"asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(b), \"f\"(a));",
     "y = cvt_bf16_f32(a) | (unsigned)cvt_bf16_f32(b) << 16;"},
    {"asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(y) : \"f\"(b), \"f\"(a));",
     "y = cvt_f16_f32(a) | (unsigned)cvt_f16_f32(b) << 16;"},
    {"asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));",
     "y = exp2f(x); y = y < 0x1p-126f ? 0 : y;"},
    {PIECES_TEXT(""), "pieces_on_cpu(to, row, false);"},
    {PIECES_TEXT(".trans"), "pieces_on_cpu(to, row, true);"},
    {"asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" : : "
     "\"r\"((unsigned)__cvta_generic_to_shared(to)), \"l\"(from), \"r\"(bytes) : \"memory\");",
     "copy_on_cpu(to, from, bytes);"},
    {"asm volatile(\"cp.async.commit_group;\" : : : \"memory\");", "copies_end_on_cpu();"},
    {"asm volatile(\"cp.async.wait_group 0;\" : : : \"memory\");", "copies_wait_on_cpu(0);"},
    {"asm volatile(\"cp.async.wait_group 1;\" : : : \"memory\");", "copies_wait_on_cpu(1);"},
    {"asm volatile(\"cp.async.wait_group 2;\" : : : \"memory\");", "copies_wait_on_cpu(2);"},
    {MMA_TEXT("bf16"), "mma_on_cpu(c, a, b, true);"},
    {MMA_TEXT("f16"), "mma_on_cpu(c, a, b, false);"},
    {"asm volatile(\"barrier.cluster.arrive.release;\\nbarrier.cluster.wait.acquire;\" ::: "
     "\"memory\");",
     "cuda_wait();"},
    {"asm volatile(\"barrier.cluster.arrive.relaxed;\\nbarrier.cluster.wait;\" ::: \"memory\");",
     "cuda_wait();"},
    {FAR_TEXT("f32", "f"), far_c},
    {FAR_TEXT("f64", "d"), far_c},
    {FAR_TEXT("b32", "r"), far_c},
    {FAR_TEXT("b64", "l"), far_c},
};

/* Where the next one is; NULL: nowhere. */
static const char *next_of(const char *text) {
    static const char *const heads[] = {"asm(", "asm volatile(", "extern __shared__",
                                        "void move(void *to"};
    const char *first = NULL;
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) {
        const char *at = strstr(text, heads[k]);
        if (at && (!first || at < first)) first = at;
    }
    return first;
}

/* The first place in the text where one of the rows begins, and which; NULL: nowhere. */
static const char *find_ptx(const char *text, uint32_t *out_row) {
    const char *at = next_of(text);
    for (*out_row = 0; at && *out_row < sizeof ptx / sizeof *ptx; ++*out_row)
        if (strncmp(at, ptx[*out_row][0], strlen(ptx[*out_row][0])) == 0) break;
    return at;
}

static hn_status put_text(const char *text, hn_strbuf *out) {
    const char *at;
    uint32_t row;
    hn_strbuf_puts(out, "#include \"support/cuda_on_cpu.h\"\n");
    for (; (at = find_ptx(text, &row)); text = at + strlen(ptx[row][0])) {
        if (row == sizeof ptx / sizeof *ptx)
            return HN_ERROR(HN_UNSUPPORTED, "tests/support/cuda_on_cpu.c has no C for %.60s", at);
        hn_strbuf_append(out, text, (size_t)(at - text));
        hn_strbuf_puts(out, ptx[row][1]);
    }
    hn_strbuf_puts(out, text);
    return hn_strbuf_status(out);
}

/* Of the kernel whose head this is. */
static unsigned blocks_of(const char *head, const char *name) {
    const char *at = strstr(head, "__cluster_dims__(");
    return at && at < name ? (unsigned)strtoul(strchr(at, '(') + 1, NULL, 10) : 1;
}

/* void call_NAME(void **arguments), behind each kernel's text; and how many blocks are a group. */
static void put_calls(const char *text, hn_strbuf *out) {
    static const char head[] = "__global__ ";
    for (const char *at = text; (at = strstr(at, head));) {
        const char *name = strchr(at, '\n') + 1;
        const int len = (int)strcspn(name, "(");
        hn_strbuf_printf(out, "extern \"C\" void call_%.*s(void **a) { call(%.*s, a); }\n", len,
                         name, len, name);
        hn_strbuf_printf(out, "extern \"C\" { unsigned blocks_%.*s = %u; }\n", len, name,
                         blocks_of(at, name));
        hn_strbuf_printf(out, "extern \"C\" { unsigned arguments_%.*s = count_arguments(%.*s); }\n",
                         len, name, len, name);
        hn_strbuf_printf(
            out, "extern \"C\" { const unsigned *alignments_%.*s = list_alignments(%.*s); }\n", len,
            name, len, name);
        at = name;
    }
}

/* The compiler's messages, or "". */
static hn_status compile(const char *source, const char *object) {
    char command[1200], said[4000];
    const char *contracts =
        __builtin_cpu_supports("fma") ? "-mfma -ffp-contract=fast" : "-ffp-contract=off";
    const char *compiler = getenv("CXX"), *root = getenv("HENRY_TEST_ROOT");
    snprintf(command, sizeof command,
             "%s -std=c++17 -O1 -w -fPIC -shared %s -fno-strict-aliasing -I %s/tests -o %s %s 2>&1",
             compiler && *compiler ? compiler : "g++", contracts, root && *root ? root : ".",
             object, source);
    FILE *pipe = popen(command, "r");
    if (!pipe) return HN_ERROR(HN_IO, "cannot start a compiler");
    const size_t len = fread(said, 1, sizeof said - 1, pipe);
    said[len] = '\0';
    while (fgetc(pipe) != EOF) continue;
    return pclose(pipe) == 0 ? NULL : HN_ERROR(HN_TOOLCHAIN, "%s", said);
}

static hn_status load(const char *object, opencl_program *p) {
    p->object = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (!p->object) return HN_ERROR(HN_TOOLCHAIN, "%s", dlerror());
    *(void (**)(void))dlsym(p->object, "cuda_wait") = wait_for_group;
    *(void (**)(void))dlsym(p->object, "cuda_wait_in_warp") = wait_for_warp;
    *(uint64_t(**)(uint64_t, uint32_t, uint32_t))dlsym(p->object, "cuda_exchange") = exchange;
    *(void (**)(const unsigned *, unsigned(*)[WARP]))dlsym(p->object, "cuda_show") = show;
    *(const void *(**)(const void *, uint32_t))dlsym(p->object, "cuda_far") = find_far;
    return NULL;
}

static hn_status build_in(opencl_program *p, const char *text) {
    char source[300], object[300];
    hn_strbuf all;
    const uint32_t number = p->host->count++;
    snprintf(source, sizeof source, "%s/%u.cc", p->host->folder, number);
    snprintf(object, sizeof object, "%s/%u.so", p->host->folder, number);
    hn_strbuf_init(&all);
    hn_status status = put_text(text, &all);
    if (!status) put_calls(text, &all);
    if (!status) status = hn_strbuf_status(&all);
    if (!status) status = hn_file_write_atomic(source, all.ptr, all.len, false);
    if (!status) status = compile(source, object);
    if (!status) status = load(object, p);
    hn_strbuf_deinit(&all);
    unlink(source);
    unlink(object);
    return status;
}

hn_status opencl_program_build(opencl_host *host, const char *text, size_t len, const char *options,
                               opencl_program **out) {
    opencl_program *p = calloc(1, sizeof *p);
    (void)len, (void)options;
    if (!p) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for a program");
    p->host = host;
    hn_status status = build_in(p, text);
    if (status) opencl_program_free(p);
    else *out = p;
    return status;
}

void opencl_program_free(opencl_program *p) {
    if (!p) return;
    if (p->object) dlclose(p->object);
    free(p);
}

/* ---- launches ---- */

/* Memories, status, sizes, scratch; each as its address. */
static uint32_t list_arguments(const opencl_launch *l, void **memories, int **status,
                               char **scratch, void **out) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < l->memory_count; k++) {
        memories[k] = l->memories[k].bytes;
        out[count++] = &memories[k];
    }
    out[count++] = status;
    for (uint32_t k = 0; k < l->size_count; k++) out[count++] = (void *)(uintptr_t)&l->sizes[k];
    out[count++] = scratch;
    return count;
}

/* What the program has under a name made of two. */
static void *find(const opencl_program *p, const char *prefix, const char *kernel) {
    char name[80];
    snprintf(name, sizeof name, "%s%s", prefix, kernel);
    return dlsym(p->object, name);
}

static hn_status prepare(const opencl_program *p, const opencl_launch *l, group *g) {
    *(void **)&g->call = find(p, "call_", l->kernel);
    if (!g->call) return HN_ERROR(HN_INTERNAL, "the program has no kernel '%s'", l->kernel);
    const unsigned blocks = *(unsigned *)find(p, "blocks_", l->kernel);
    if (!blocks || blocks > BLOCKS_MAX || l->groups % blocks)
        return HN_ERROR(HN_INTERNAL, "%zu blocks in clusters of %u", l->groups, blocks);
    char *const *shared = dlsym(p->object, "cuda_shared_ends");
    g->shared = shared[0];
    g->own_bytes = (size_t)(shared[1] - shared[0]);
    g->kept = calloc(blocks, g->own_bytes + 1);
    if (!g->kept) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory for %u blocks", blocks);
    g->block_threads = (uint32_t)l->threads;
    g->threads = blocks * g->block_threads;
    g->memory = dlsym(p->object, "cuda_memory");
    g->shared_bytes = l->shared_bytes;
    g->block_number = dlsym(p->object, "blockIdx");
    g->thread_number = dlsym(p->object, "threadIdx");
    return NULL;
}

static hn_status run_groups(opencl_program *p, const opencl_launch *l, group *g) {
    hn_status status = prepare(p, l, g);
    for (size_t k = 0; !status && k < l->groups; k += g->threads / g->block_threads) {
        g->first_block = (uint32_t)k;
        status = run_group(g, p->host->stacks);
    }
    free(g->kept);
    return status;
}

hn_status opencl_program_run(opencl_program *p, const opencl_launch *l, int *out_failed) {
    void *memories[MAX_ARGUMENTS], *arguments[2 * MAX_ARGUMENTS];
    int failed = 0, *status_word = &failed;
    char *scratch = NULL;
    group *g = calloc(1, sizeof *g);
    if (l->memory_count > MAX_ARGUMENTS || l->size_count > MAX_ARGUMENTS || !g ||
        l->threads > BLOCK_MAX || l->shared_bytes > SHARED_MAX ||
        posix_memalign((void **)&scratch, 64, l->scratch_bytes + 64) != 0) {
        free(g);
        return HN_ERROR(HN_UNSUPPORTED, "too much for the test");
    }
    list_arguments(l, memories, &status_word, &scratch, arguments);
    g->arguments = arguments;
    hn_status status = run_groups(p, l, g);
    *out_failed = failed;
    free(scratch);
    free(g);
    return status;
}

/* ---- for a stand-in of the driver (cuda_texts.c) ---- */

uint32_t cuda_program_arguments(const opencl_program *p, const char *kernel) {
    const unsigned *count = find(p, "arguments_", kernel);
    return count ? *count : 0;
}

const unsigned *cuda_program_alignments(const opencl_program *p, const char *kernel) {
    const unsigned *const *list = find(p, "alignments_", kernel);
    return list ? *list : NULL;
}

hn_status cuda_program_call(opencl_program *p, const opencl_launch *l, void **arguments) {
    group *g = calloc(1, sizeof *g);
    if (!g || l->threads > BLOCK_MAX || l->shared_bytes > SHARED_MAX) {
        free(g);
        return HN_ERROR(HN_UNSUPPORTED, "too much for the test");
    }
    g->arguments = arguments;
    hn_status status = run_groups(p, l, g);
    free(g);
    return status;
}
