/* Memory of the caller's: all that is large comes from it and goes back to it. */
#include "unit/runtime/module_fixture.h"

#include "runtime/module_impl.h"

#include <stdatomic.h>
#include <unistd.h>

typedef struct counter {
    atomic_llong alive, calls, bytes;
    atomic_llong refuse_at; /* the call that gets none; 0: every one gets some */
    atomic_bool unaligned;
    hn_block_pool *pool; /* is asked for its lock when memory is freed; NULL: none */
} counter;

static void *count_alloc(void *context, size_t bytes, size_t alignment) {
    counter *c = context;
    if (atomic_fetch_add(&c->calls, 1) + 1 == atomic_load(&c->refuse_at)) return NULL;
    if (!bytes || alignment < 64 || alignment & (alignment - 1)) atomic_store(&c->unaligned, true);
    atomic_fetch_add(&c->alive, 1);
    atomic_fetch_add(&c->bytes, (long long)bytes);
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void count_free(void *context, void *memory) {
    counter *c = context;
    atomic_fetch_sub(&c->alive, 1);
    if (c->pool) hn_block_pool_limit(c->pool, 0);
    free(memory);
}

/* y = 2 * (x + w), n = 5, v = x is an input handed out; w = x */
static const char text[] =
    "symbol size s0 in [1, none] buffer b1 : input f32[s0] source 0 buffer b2 : constant f32[4] source 1 buffer b3 : temp f32[s0] bytes(4*s0) "
    "buffer b4 : output f32[s0] bytes(4*s0) " KERNELS "input \"x\" : f32[s0] strides [1] in b1 "
    "call k1(b1 f32, b2 f32, out b3 f32) extent(4) call k4(b3 f32, out b4 f32) extent(s0) "
    "output mutation \"w\" : f32[4] strides [1] in b3 "
    "output tensor \"y\" : f32[s0] strides [1] in b4 output scalar \"n\" : int(5) output tensor \"v\" : f32[s0] strides [1] in b1";
static const float w[4] = {1, 2, 3, 4};

static hn_status load(counter *c, hn_module **out) {
    hn_allocator allocator = {c, count_alloc, count_free}; /* copied */
    program p;
    hn_strbuf image;
    program_init(&p);
    program_add_weight(&p, &(fixture_weight){"w", HN_INPUT_BUFFER, HN_DTYPE_F32, 4, w});
    EXPECT_OK(program_image(&p, text, NULL, &image));
    hn_status status =
        hn_module_load_memory(image.ptr, image.len, false,
                              &(hn_module_options){.threads = 1, .allocator = &allocator}, out);
    hn_strbuf_deinit(&image);
    program_deinit(&p);
    return status;
}

static hn_status run(hn_module *m, int64_t n, hn_tensor **out) {
    static float x[2 << 20];
    hn_tensor *in[1] = {tensor_of(HN_F32, 1, &n, (int64_t[]){2}, x)}; /* is laid out first */
    hn_status status = hn_module_run(m, in, 1, out, 3);
    hn_tensor_release(in[0]);
    return status;
}

static void release3(hn_tensor **out) {
    for (int k = 0; k < 3; k++) hn_tensor_release(out[k]), out[k] = NULL;
}

TEST(everything_comes_back) {
    counter c = {0};
    hn_module *m = NULL;
    hn_tensor *out[3] = {NULL};
    hn_state *s = NULL;
    EXPECT_OK(load(&c, &m));
    EXPECT_OK(hn_state_create(m, &s));
    const int64_t sizes[] = {4, 100000, 7, 1 << 20, 1 << 20};
    for (int k = 0; k < 5; k++) {
        EXPECT_OK(run(m, sizes[k], out));
        EXPECT(out[0] && hn_tensor_numel(out[0]) == sizes[k]);
        if (k < 4) release3(out);
    }
    EXPECT(!atomic_load(&c.unaligned));
    /* Laid out input, workspace, two outputs of 4 MiB at least. */
    EXPECT(atomic_load(&c.bytes) > 16 << 20);
    hn_tensor *other = tensor_of(HN_F32, 1, (int64_t[]){4}, NULL, (float[]){9, 9, 9, 9});
    EXPECT_OK(hn_module_weights_replace(m, &(hn_named_tensor){"w", other}, 1, false));
    hn_tensor_release(other);
    hn_state_destroy(s);
    hn_module_release(m); /* the outputs live on */
    EXPECT_INT(atomic_load(&c.alive), 3);
    EXPECT(*(float *)hn_tensor_data(out[0]) == 2 * (1 + 0) ||
           *(float *)hn_tensor_data(out[0]) == 0);
    release3(out);
    EXPECT_INT(atomic_load(&c.alive), 0);
}

TEST(no_memory_is_an_error) {
    for (long long at = 1; at < 12; at++) {
        counter c = {0};
        hn_module *m = NULL;
        hn_tensor *out[3] = {NULL};
        atomic_store(&c.refuse_at, at);
        hn_status status = load(&c, &m);
        if (!status) status = run(m, 1000, out);
        const bool was_refused = atomic_load(&c.calls) >= at;
        EXPECT_INT(hn_status_code(status), was_refused ? HN_OUT_OF_MEMORY : HN_OK);
        hn_status_free(status);
        if (m && was_refused) EXPECT_OK(run(m, 1000, out)); /* the module is as good as before */
        release3(out);
        hn_module_release(m);
        EXPECT_INT(atomic_load(&c.alive), 0);
    }
}

/* Programs for the CPU have no memory on a device. */
TEST(no_device_of_the_caller) {
    program p;
    hn_strbuf image;
    hn_module *m = NULL;
    counter c = {.refuse_at = 0};
    const hn_device_allocator allocator = {.context = &c};
    program_init(&p);
    program_add_weight(&p, &(fixture_weight){"w", HN_INPUT_BUFFER, HN_DTYPE_F32, 4, w});
    EXPECT_OK(program_image(&p, text, NULL, &image));
    EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false,
                                       &(hn_module_options){.device_context = &c}, &m),
                 HN_UNSUPPORTED, "the program runs on cpu, which takes no context");
    EXPECT_ERROR(hn_module_load_memory(image.ptr, image.len, false,
                                       &(hn_module_options){.device_allocator = &allocator}, &m),
                 HN_INVALID_ARGUMENT, "the device allocator has no 'alloc'");
    hn_strbuf_deinit(&image);
    program_deinit(&p);
}

TEST(half_an_allocator) {
    hn_module *m = NULL;
    hn_allocator half = {.alloc = count_alloc};
    EXPECT_ERROR(hn_module_load_memory("", 0, false, &(hn_module_options){.allocator = &half}, &m),
                 HN_INVALID_ARGUMENT, "the allocator has no 'free'");
    half = (hn_allocator){.free = count_free};
    EXPECT_ERROR(hn_module_load_memory("", 0, false, &(hn_module_options){.allocator = &half}, &m),
                 HN_INVALID_ARGUMENT, "the allocator has no 'alloc'");
}

/* The caller's code may take its time, and do what another thread waits for: not with the lock of
 * the memory for outputs. */
TEST(memory_is_freed_without_a_lock) {
    counter c = {.refuse_at = 0};
    hn_module *m = NULL;
    hn_tensor *out[3] = {NULL};
    EXPECT_OK(load(&c, &m));
    if (!m) return;
    EXPECT_OK(run(m, 1 << 20, out));
    release3(out);
    const long long alive = atomic_load(&c.alive);
    alarm(60); /* or it waits for itself */
    c.pool = m->blocks;
    hn_block_pool_limit(m->blocks, 0);
    c.pool = NULL;
    alarm(0);
    EXPECT(atomic_load(&c.alive) < alive);
    hn_module_release(m);
    EXPECT_INT(atomic_load(&c.alive), 0);
}

/* Memory that a loop wants more of in each round: all that a call takes is in proportion to the
 * most that a round needs, and not to the square of it. */
TEST(loops_that_want_more_in_each_round) {
    enum { ROUNDS = 300, MORE = 1000, MASK = (ROUNDS + 1) * MORE };
    static uint8_t ones[MASK];
    int64_t first = 0, count = MASK;
    counter c = {0};
    hn_allocator allocator = {&c, count_alloc, count_free};
    hn_module *m = load_text(
        "symbol data u0 in [0, 10000000] hint 8 buffer b1 : input bool[301000] source 0 "
        "buffer b2 : input i64[] source 1 buffer b3 : output i64[] bytes(8) "
        "buffer b4 : temp f32[u0] bytes(4*u0) " KERNELS
        "input \"ones\" : bool[301000] strides [1] in b1 input \"n\" : i64[] strides [] in b2 "
        "copy b3 from b2 loop rounds(300) { define(b3 i64) symbol(u0) "
        "  call k6(b1 bool, out b4 f32) extent(1) "
        "  call k7(b1 bool, out b3 i64) params [u0 + 1000] extent(1) } "
        "output tensor \"y\" : i64[] strides [] in b3",
        &(hn_module_options){.threads = 1, .allocator = &allocator});
    memset(ones, 1, sizeof ones);
    hn_tensor *in[2] = {tensor_of(HN_BOOL, 1, &count, NULL, ones),
                        tensor_of(HN_I64, 0, NULL, NULL, &first)},
              *out[1] = {NULL};
    EXPECT_OK(hn_module_run(m, in, 2, out, 1));
    if (out[0]) EXPECT_INT(*(int64_t *)hn_tensor_data(out[0]), ROUNDS * MORE);
    EXPECT(atomic_load(&c.bytes) < 8 * 4 * ROUNDS * MORE);
    hn_tensor_release(out[0]), hn_tensor_release(in[0]), hn_tensor_release(in[1]);
    hn_module_release(m);
    EXPECT_INT(atomic_load(&c.alive), 0);
}

TEST_MAIN
