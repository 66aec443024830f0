/* States: buffers that a program changes, several sets of them side by side. */
#include "unit/runtime/module_fixture.h"

#include <pthread.h>

/* y = w; w = w + x */
static const char counter[] =
    "buffer b1 : input f32[4] source 0 buffer b2 : constant f32[4] source 1 buffer b3 : output f32[4] bytes(16) "
    "buffer b4 : output f32[4] bytes(16) " KERNELS "input \"x\" : f32[4] strides [1] in b1 "
    "call k1(b1 f32, b2 f32, out b3 f32) extent(4) call k1(b3 f32, b2 f32, out b4 f32) extent(4) "
    "output mutation \"w\" : f32[4] strides [1] in b3 output tensor \"y\" : f32[4] strides [1] in b2";

static const float initial[4] = {10, 20, 30, 40};

static hn_module *load_counter(void) {
    return load_weights(counter, &(fixture_weight){"w", HN_INPUT_BUFFER, HN_DTYPE_F32, 4, initial},
                        1, &(hn_module_options){.threads = 1});
}

/* Adds `by` to the state; the first number of the output, which is the state as it was. */
static float step(hn_module *m, hn_state *state, float by) {
    float x[4] = {by, by, by, by}, before = NAN;
    hn_tensor *in[1] = {F32(x, 4)}, *out[1] = {NULL};
    EXPECT_OK(hn_module_run_with(m, &(hn_run_options){.state = state}, in, 1, out, 1));
    if (out[0]) before = *(float *)hn_tensor_data(out[0]);
    hn_tensor_release(in[0]), hn_tensor_release(out[0]);
    return before;
}

static float first_of(hn_state *state) {
    hn_tensor *w = NULL;
    float value = NAN;
    EXPECT_OK(hn_state_read(state, "w", &w));
    if (w) value = *(float *)hn_tensor_data(w);
    hn_tensor_release(w);
    return value;
}

TEST(states_side_by_side) {
    hn_module *m = load_counter();
    hn_state *a = NULL, *b = NULL, *c = NULL;
    EXPECT_NEAR(step(m, NULL, 1), 10, 0); /* the module's own */
    EXPECT_OK(hn_state_create(m, &a)); /* begins with the weights, whatever the module's own is */
    EXPECT_OK(hn_state_create(m, &b));
    for (int k = 0; k < 3; k++) {
        EXPECT_NEAR(step(m, a, 1), 10 + k, 0);
        EXPECT_NEAR(step(m, b, 100), 10 + 100 * k, 0);
        EXPECT_NEAR(step(m, NULL, 1), 11 + k, 0);
    }
    EXPECT_OK(hn_state_copy(b, &c));
    EXPECT_NEAR(step(m, c, 5), 310, 0);
    EXPECT_NEAR(first_of(b), 310, 0);
    EXPECT_NEAR(first_of(c), 315, 0);
    EXPECT_OK(hn_state_reset(b));
    EXPECT_NEAR(first_of(b), 10, 0);
    EXPECT_NEAR(first_of(a), 13, 0);
    EXPECT_OK(hn_state_reset(hn_module_state(m)));
    EXPECT_NEAR(step(m, NULL, 1), 10, 0);
    hn_state_destroy(a), hn_state_destroy(b);
    hn_module_release(m); /* c keeps the module */
    EXPECT_NEAR(first_of(c), 315, 0);
    hn_state_destroy(c);
}

TEST(a_new_state_where_an_old_one_was) {
    hn_module *m = load_counter();
    /* addresses come back: a run must not take the content for that of the last state */
    for (int k = 0; k < 20; k++) {
        hn_state *s = NULL;
        EXPECT_OK(hn_state_create(m, &s));
        EXPECT_NEAR(step(m, s, (float)k), 10, 0);
        EXPECT_NEAR(step(m, s, 0), 10 + k, 0);
        hn_state_destroy(s);
    }
    hn_module_release(m);
}

TEST(buffers_by_name) {
    hn_module *m = load_counter();
    hn_state *s = NULL;
    float strided[8] = {1, 0, 2, 0, 3, 0, 4, 0}, back[4];
    hn_tensor *t = tensor_of(HN_F32, 1, (int64_t[]){4}, (int64_t[]){2}, strided), *r = NULL;
    EXPECT_OK(hn_state_create(m, &s));
    EXPECT_OK(hn_state_write(s, "w", t));
    EXPECT_OK(hn_state_read(s, "w", &r));
    EXPECT_OK(hn_tensor_copy_out(r, back));
    EXPECT(back[0] == 1 && back[1] == 2 && back[3] == 4);
    hn_tensor_release(r);
    EXPECT_NEAR(step(m, s, 1), 1, 0);
    EXPECT_NEAR(step(m, NULL, 1), 10, 0);
    EXPECT_OK(hn_module_buffer_write(m, "w", t));
    EXPECT_NEAR(step(m, NULL, 1), 1, 0);
    EXPECT_ERROR(hn_state_write(s, "v", t), HN_NOT_FOUND,
                 "the program changes no buffer 'v'; did you mean 'w'?");
    hn_tensor *wrong = F32(strided, 3);
    EXPECT_ERROR(hn_state_write(s, "w", wrong), HN_INVALID_ARGUMENT,
                 "buffer 'w' has size 4 in dimension 0, the tensor has 3");
    hn_tensor_release(wrong);
    wrong = F32(strided, 2, 2);
    EXPECT_ERROR(hn_state_write(s, "w", wrong), HN_INVALID_ARGUMENT,
                 "buffer 'w' has 1 dimensions, the tensor has 2");
    hn_tensor_release(wrong);
    wrong = tensor_of(HN_I32, 1, (int64_t[]){4}, NULL, strided);
    EXPECT_ERROR(hn_state_write(s, "w", wrong), HN_INVALID_ARGUMENT,
                 "buffer 'w' has type f32, the tensor has i32");
    hn_tensor_release(wrong), hn_tensor_release(t);
    hn_state_destroy(s);
    hn_module_release(m);
}

TEST(wrong_states) {
    hn_module *m = load_counter(), *other = load_counter();
    hn_state *s = NULL;
    hn_tensor *t = NULL, *out[1] = {NULL};
    float x[4] = {0};
    EXPECT_OK(hn_state_create(other, &s));
    hn_tensor *in[1] = {F32(x, 4)};
    EXPECT_ERROR(hn_module_run_with(m, &(hn_run_options){.state = s}, in, 1, out, 1),
                 HN_INVALID_ARGUMENT, "the state is of another module");
    EXPECT_ERROR(hn_state_create(NULL, &s), HN_INVALID_ARGUMENT,
                 "hn_state_create: 'module' is NULL");
    EXPECT_ERROR(hn_state_create(m, NULL), HN_INVALID_ARGUMENT, "'out_state' is NULL");
    EXPECT_ERROR(hn_state_copy(NULL, &s), HN_INVALID_ARGUMENT, "'from' is NULL");
    EXPECT_ERROR(hn_state_copy(s, NULL), HN_INVALID_ARGUMENT, "'out_state' is NULL");
    EXPECT_ERROR(hn_state_reset(NULL), HN_INVALID_ARGUMENT, "'state' is NULL");
    EXPECT_ERROR(hn_state_read(NULL, "w", &t), HN_INVALID_ARGUMENT, "'state' is NULL");
    EXPECT_ERROR(hn_state_read(s, NULL, &t), HN_INVALID_ARGUMENT, "'name' is NULL");
    EXPECT_ERROR(hn_state_read(s, "w", NULL), HN_INVALID_ARGUMENT, "'out_tensor' is NULL");
    EXPECT_ERROR(hn_state_write(s, "w", NULL), HN_INVALID_ARGUMENT, "'tensor' is NULL");
    EXPECT(!hn_module_state(NULL));
    hn_state_destroy(NULL);
    hn_state_destroy(hn_module_state(m)); /* is left alone */
    EXPECT_NEAR(step(m, NULL, 1), 10, 0);
    hn_tensor_release(in[0]);
    hn_state_destroy(s);
    hn_module_release(m), hn_module_release(other);
}

typedef struct sequence {
    hn_module *m;
    hn_state *state;
    int wrong;
} sequence;

static void *run_sequence(void *user) {
    sequence *q = user;
    for (int k = 0; k < 300; k++) q->wrong += step(q->m, q->state, 2) != (float)(10 + 2 * k);
    return NULL;
}

TEST(sequences_in_parallel) {
    enum { COUNT = 4 };
    hn_module *m = load_counter();
    sequence all[COUNT];
    pthread_t threads[COUNT];
    for (int k = 0; k < COUNT; k++) {
        all[k] = (sequence){.m = m};
        EXPECT_OK(hn_state_create(m, &all[k].state));
        EXPECT_INT(pthread_create(&threads[k], NULL, run_sequence, &all[k]), 0);
    }
    for (int k = 0; k < COUNT; k++) {
        pthread_join(threads[k], NULL);
        EXPECT_INT(all[k].wrong, 0);
        EXPECT_NEAR(first_of(all[k].state), 610, 0);
        hn_state_destroy(all[k].state);
    }
    hn_module_release(m);
}

TEST_MAIN
