/* Tensors: descriptions, ownership, copies between strided and row-major memory. */
#include "henry/tensor.h"
#include "unit/harness.h"

#include <pthread.h>
#include <stdlib.h>

static hn_tensor *make(hn_tensor_desc desc) {
    hn_tensor *t = NULL;
    EXPECT_OK(hn_tensor_create(&desc, &t));
    return t;
}

static void count_free(void *user) { ++*(int *)user; }

TEST(scalar_types_have_bytes_and_names) {
    EXPECT_INT(hn_scalar_type_bytes(HN_F64), 8);
    EXPECT_INT(hn_scalar_type_bytes(HN_BF16), 2);
    EXPECT_INT(hn_scalar_type_bytes(HN_BOOL), 1);
    EXPECT_INT(hn_scalar_type_bytes(HN_NO_TYPE), 0);
    EXPECT_INT(hn_scalar_type_bytes((hn_scalar_type)-1), 0);
    EXPECT_STR(hn_scalar_type_name(HN_BF16), "bf16");
    EXPECT_STR(hn_scalar_type_name((hn_scalar_type)99), "none");
}

TEST(devices) {
    int64_t sizes[1] = {2};
    float x[2] = {1, 2}, y[2];
    const hn_tensor_desc here = {.type = HN_F32, .rank = 1, .sizes = sizes, .data = x};
    hn_tensor_desc there = here;
    hn_tensor *t = make(here), *none = NULL;
    EXPECT_INT(hn_tensor_device(t).kind, HN_DEVICE_CPU);
    EXPECT_INT(hn_tensor_device(NULL).kind, HN_DEVICE_CPU);
    hn_tensor_release(t);
    there.device = (hn_device){.kind = HN_DEVICE_OPENCL, .number = 2};
    t = make(there);
    EXPECT_INT(hn_tensor_device(t).kind, HN_DEVICE_OPENCL);
    EXPECT_INT(hn_tensor_device(t).number, 2);
    EXPECT_ERROR(hn_tensor_copy_out(t, y), HN_UNSUPPORTED,
                 "cannot copy out of a tensor on opencl:2; it must be on cpu");
    EXPECT_ERROR(hn_tensor_copy_in(t, y), HN_UNSUPPORTED,
                 "cannot fill a tensor on opencl:2; it must be on cpu");
    hn_tensor_release(t);
    there.data = NULL;
    EXPECT_ERROR(hn_tensor_create(&there, &none), HN_UNSUPPORTED,
                 "cannot allocate a tensor on opencl:2; give its memory as 'data'");
    there.device = (hn_device){.kind = HN_DEVICE_KIND_COUNT};
    EXPECT_ERROR(hn_tensor_create(&there, &none), HN_INVALID_ARGUMENT,
                 "tensor on a device of unknown kind 3");
    there.device = (hn_device){.kind = (hn_device_kind)-1};
    EXPECT_ERROR(hn_tensor_create(&there, &none), HN_INVALID_ARGUMENT, "unknown kind -1");
    there.device = (hn_device){.number = 1};
    EXPECT_ERROR(hn_tensor_create(&there, &none), HN_INVALID_ARGUMENT,
                 "tensor on cpu:1; there is cpu:0 only");
    EXPECT_STR(hn_device_kind_name(HN_DEVICE_CUDA), "cuda");
    EXPECT_STR(hn_device_kind_name((hn_device_kind)-1), "unknown");
}

TEST(own_memory_is_contiguous_and_aligned) {
    const int64_t sizes[3] = {2, 3, 4};
    hn_tensor *t = make((hn_tensor_desc){.type = HN_F32, .rank = 3, .sizes = sizes});
    EXPECT_INT(hn_tensor_type(t), HN_F32);
    EXPECT_INT(hn_tensor_rank(t), 3);
    EXPECT_INT(hn_tensor_numel(t), 24);
    EXPECT_INT(hn_tensor_sizes(t)[1], 3);
    EXPECT_INT(hn_tensor_strides(t)[0], 12);
    EXPECT_INT(hn_tensor_strides(t)[1], 4);
    EXPECT_INT(hn_tensor_strides(t)[2], 1);
    EXPECT_INT((uintptr_t)hn_tensor_data(t) % 64, 0);
    memset(hn_tensor_data(t), 1, 24 * sizeof(float));
    hn_tensor_release(t);
}

TEST(scalars_and_empty_tensors) {
    hn_tensor *scalar = make((hn_tensor_desc){.type = HN_I64});
    int64_t value = 7, back = 0;
    EXPECT_INT(hn_tensor_numel(scalar), 1);
    hn_tensor_copy_in(scalar, &value);
    hn_tensor_copy_out(scalar, &back);
    EXPECT_INT(back, 7);
    hn_tensor_release(scalar);

    const int64_t sizes[3] = {2, 0, 5};
    hn_tensor *empty = make((hn_tensor_desc){.type = HN_I64, .rank = 3, .sizes = sizes});
    EXPECT_INT(hn_tensor_numel(empty), 0);
    EXPECT_INT(hn_tensor_strides(empty)[0], 5);
    EXPECT(hn_tensor_data(empty) != NULL);
    hn_tensor_copy_in(empty, NULL);
    hn_tensor_copy_out(empty, NULL);
    hn_tensor_release(empty);
    hn_tensor_release(NULL);
}

TEST(memory_goes_with_the_last_reference) {
    float data[2] = {1, 2};
    int frees = 0;
    const int64_t size = 2;
    hn_tensor *t = make((hn_tensor_desc){.type = HN_F32,
                                         .rank = 1,
                                         .sizes = &size,
                                         .data = data,
                                         .free_data = count_free,
                                         .free_user = &frees});
    EXPECT(hn_tensor_data(t) == data);
    EXPECT(hn_tensor_retain(t) == t);
    hn_tensor_release(t);
    EXPECT_INT(frees, 0);
    hn_tensor_release(t);
    EXPECT_INT(frees, 1);
}

static void *retain_and_release(void *user) {
    for (int n = 0; n < 20000; n++) hn_tensor_release(hn_tensor_retain(user));
    hn_tensor_release(user);
    return NULL;
}

TEST(references_are_counted_across_threads) {
    int frees = 0;
    char data = 0;
    pthread_t threads[4];
    hn_tensor *t = make((hn_tensor_desc){
        .type = HN_U8, .data = &data, .free_data = count_free, .free_user = &frees});
    for (int n = 0; n < 4; n++)
        EXPECT_INT(pthread_create(&threads[n], NULL, retain_and_release, hn_tensor_retain(t)), 0);
    for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
    EXPECT_INT(frees, 0);
    hn_tensor_release(t);
    EXPECT_INT(frees, 1);
}

/* Element [i, j, ..] of the row-major array is its position there; in memory it must stand at the
 * strides' place. */
static void check_copies(hn_scalar_type type, uint32_t rank, const int64_t *sizes,
                         const int64_t *strides) {
    const size_t bytes = hn_scalar_type_bytes(type);
    unsigned char dense[512 * 8], back[512 * 8];
    hn_tensor *t =
        make((hn_tensor_desc){.type = type, .rank = rank, .sizes = sizes, .strides = strides});
    const int64_t numel = hn_tensor_numel(t);
    EXPECT(numel <= 512);
    for (size_t n = 0; n < (size_t)numel * bytes; n++) dense[n] = (unsigned char)(n * 37 + n / 251);
    hn_tensor_copy_in(t, dense);
    for (int64_t n = 0; n < numel; n++) {
        int64_t rest = n, at = 0;
        for (uint32_t d = rank; d-- > 0; rest /= sizes[d]) at += rest % sizes[d] * strides[d];
        if (memcmp((char *)hn_tensor_data(t) + at * (int64_t)bytes, dense + n * (int64_t)bytes,
                   bytes) != 0)
            HN_TEST_FAIL("%s: element %lld is not at %lld", hn_scalar_type_name(type), (long long)n,
                         (long long)at);
    }
    memset(back, 0, sizeof back);
    hn_tensor_copy_out(t, back);
    EXPECT(memcmp(back, dense, (size_t)numel * bytes) == 0);
    hn_tensor_release(t);
}

TEST(copies_follow_strides) {
    const hn_scalar_type types[] = {HN_F64, HN_F32, HN_F16, HN_I8};
    for (int n = 0; n < 4; n++) {
        check_copies(types[n], 3, (int64_t[]){2, 3, 4}, (int64_t[]){12, 4, 1}); /* contiguous */
        check_copies(types[n], 3, (int64_t[]){2, 3, 4}, (int64_t[]){1, 2, 6});  /* reversed */
        /* gaps everywhere */
        check_copies(types[n], 3, (int64_t[]){2, 3, 4}, (int64_t[]){40, 12, 3});
        /* two dimensions merge */
        check_copies(types[n], 3, (int64_t[]){2, 3, 4}, (int64_t[]){30, 4, 1});
        /* channels last */
        check_copies(types[n], 4, (int64_t[]){2, 3, 5, 4}, (int64_t[]){60, 1, 12, 3});
        /* sizes of 1 do not matter */
        check_copies(types[n], 4, (int64_t[]){1, 6, 1, 7}, (int64_t[]){999, 1, 0, 6});
        check_copies(types[n], 1, (int64_t[]){9}, (int64_t[]){5});
        check_copies(types[n], 16, (int64_t[]){1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2},
                     (int64_t[]){0, 1, 0, 2, 0, 4, 0, 8, 0, 16, 0, 32, 0, 64, 0, 128});
    }
}

TEST(stride_zero_repeats) {
    float value = 3, out[6] = {0};
    hn_tensor *t = make((hn_tensor_desc){.type = HN_F32,
                                         .rank = 2,
                                         .sizes = (int64_t[]){2, 3},
                                         .strides = (int64_t[]){0, 0},
                                         .data = &value});
    hn_tensor_copy_out(t, out);
    for (int n = 0; n < 6; n++) EXPECT_NEAR((double)out[n], 3, 0);
    hn_tensor_release(t);
}

TEST(own_memory_spans_the_strides) {
    /* Elements at 0, 100, .. 300: 301 elements of memory. ASan watches the last one. */
    const int64_t size = 4, stride = 100;
    hn_tensor *t =
        make((hn_tensor_desc){.type = HN_F64, .rank = 1, .sizes = &size, .strides = &stride});
    ((double *)hn_tensor_data(t))[300] = 1;
    hn_tensor_release(t);
}

static hn_status try_make(hn_tensor_desc desc) {
    hn_tensor *t = NULL;
    hn_status status = hn_tensor_create(&desc, &t);
    EXPECT((status == NULL) == (t != NULL));
    hn_tensor_release(t);
    return status;
}

TEST(bad_descriptions_are_refused) {
    const int64_t huge[3] = {INT64_C(1) << 31, INT64_C(1) << 31, 2},
                  half[2] = {INT64_C(1) << 30, INT64_C(1) << 31}, minus[2] = {2, -1},
                  two[2] = {2, 2}, far[2] = {INT64_MAX, 1}, many[17] = {0};
    int frees = 0;
    EXPECT_ERROR(try_make((hn_tensor_desc){.type = HN_NO_TYPE}), HN_INVALID_ARGUMENT, "unknown");
    EXPECT_ERROR(try_make((hn_tensor_desc){.type = (hn_scalar_type)11}), HN_INVALID_ARGUMENT, "11");
    EXPECT_ERROR(try_make((hn_tensor_desc){.type = HN_F32, .rank = 17, .sizes = many}),
                 HN_INVALID_ARGUMENT, "17");
    EXPECT_ERROR(try_make((hn_tensor_desc){.type = HN_F32, .rank = 2, .sizes = minus}),
                 HN_INVALID_ARGUMENT, "-1");
    EXPECT_ERROR(
        try_make((hn_tensor_desc){.type = HN_F32, .rank = 2, .sizes = two, .strides = minus}),
        HN_INVALID_ARGUMENT, "-1");
    EXPECT_ERROR(try_make((hn_tensor_desc){.type = HN_U8, .rank = 3, .sizes = huge}),
                 HN_INVALID_ARGUMENT, "63 bits");
    EXPECT_ERROR(try_make((hn_tensor_desc){.type = HN_F32, .rank = 2, .sizes = half}),
                 HN_INVALID_ARGUMENT, "63 bits");
    EXPECT_ERROR(
        try_make((hn_tensor_desc){.type = HN_F32, .rank = 2, .sizes = two, .strides = far}),
        HN_INVALID_ARGUMENT, "63 bits");
    EXPECT_ERROR(try_make((hn_tensor_desc){.type = HN_F32,
                                           .rank = 2,
                                           .sizes = minus,
                                           .data = &frees,
                                           .free_data = count_free,
                                           .free_user = &frees}),
                 HN_INVALID_ARGUMENT, "-1");
    EXPECT_INT(frees, 0);
}

TEST(sizes_are_needed) {
    const int64_t stride = 1;
    float value = 1;
    EXPECT_ERROR(try_make((hn_tensor_desc){.type = HN_F32, .rank = 1}), HN_INVALID_ARGUMENT,
                 "no sizes");
    EXPECT_ERROR(
        try_make((hn_tensor_desc){.type = HN_F32, .rank = 1, .strides = &stride, .data = &value}),
        HN_INVALID_ARGUMENT, "no sizes");
    EXPECT_OK(try_make((hn_tensor_desc){.type = HN_F32})); /* a scalar has none */
}

/* Little memory, but more elements than a copy could count the bytes of. */
TEST(repeated_elements_are_counted) {
    const int64_t over = INT64_C(1) << 61, most = (INT64_C(1) << 60) - 1, zero = 0;
    double value = 1;
    EXPECT_ERROR(try_make((hn_tensor_desc){
                     .type = HN_F64, .rank = 1, .sizes = &over, .strides = &zero, .data = &value}),
                 HN_INVALID_ARGUMENT, "63 bits");
    EXPECT_ERROR(
        try_make((hn_tensor_desc){.type = HN_F64, .rank = 1, .sizes = &over, .strides = &zero}),
        HN_INVALID_ARGUMENT, "63 bits");
    EXPECT_OK(try_make((hn_tensor_desc){
        .type = HN_F64, .rank = 1, .sizes = &most, .strides = &zero, .data = &value}));
}

TEST(read_only_memory) {
    static const float weights[6] = {1, 2, 3, 4, 5, 6};
    const int64_t sizes[2] = {2, 3};
    float back[6] = {0};
    int freed = 0;
    hn_tensor *t = NULL;
    hn_tensor_desc desc = {
        .type = HN_F32, .rank = 2, .sizes = sizes, .free_data = count_free, .free_user = &freed};
    EXPECT_OK(hn_tensor_create_const(&desc, weights, &t));
    EXPECT(hn_tensor_is_const(t) && hn_tensor_data(t) == (const void *)weights);
    EXPECT_OK(hn_tensor_copy_out(t, back));
    EXPECT(memcmp(back, weights, sizeof back) == 0);
    EXPECT_ERROR(hn_tensor_copy_in(t, back), HN_INVALID_ARGUMENT,
                 "cannot fill a tensor of read-only memory");
    hn_tensor_release(t);
    EXPECT_INT(freed, 1);
    desc.data = back;
    EXPECT_ERROR(hn_tensor_create_const(&desc, weights, &t), HN_INVALID_ARGUMENT,
                 "'desc->data' is set");
    EXPECT_ERROR(hn_tensor_create_const(&desc, NULL, &t), HN_INVALID_ARGUMENT,
                 "hn_tensor_create_const: 'data' is NULL");
    t = make((hn_tensor_desc){.type = HN_F32, .rank = 2, .sizes = sizes});
    EXPECT(!hn_tensor_is_const(t) && !hn_tensor_is_const(NULL));
    hn_tensor_release(t);
}

TEST(null_is_refused) {
    float value = 0;
    hn_tensor *t = make((hn_tensor_desc){.type = HN_F32});
    EXPECT_ERROR(hn_tensor_create(NULL, &t), HN_INVALID_ARGUMENT,
                 "hn_tensor_create: 'desc' is NULL");
    EXPECT_ERROR(hn_tensor_create(&(hn_tensor_desc){.type = HN_F32}, NULL), HN_INVALID_ARGUMENT,
                 "'out_tensor' is NULL");
    EXPECT_ERROR(hn_tensor_copy_in(NULL, &value), HN_INVALID_ARGUMENT, "'tensor' is NULL");
    EXPECT_ERROR(hn_tensor_copy_out(NULL, &value), HN_INVALID_ARGUMENT, "'tensor' is NULL");
    EXPECT_ERROR(hn_tensor_copy_in(t, NULL), HN_INVALID_ARGUMENT, "'elements' is NULL");
    EXPECT_ERROR(hn_tensor_copy_out(t, NULL), HN_INVALID_ARGUMENT, "'out' is NULL");
    EXPECT(!hn_tensor_retain(NULL) && !hn_tensor_data(NULL) && !hn_tensor_sizes(NULL) &&
           !hn_tensor_strides(NULL));
    EXPECT_INT(hn_tensor_type(NULL), HN_NO_TYPE);
    EXPECT_INT(hn_tensor_rank(NULL) + hn_tensor_numel(NULL), 0);
    hn_tensor_release(t);
}

TEST_MAIN
