/* test_bundle.c: images that the writer makes open; damaged and foreign ones are refused with a
 * reason. */
#include "base/file.h"
#include "base/hash.h"
#include "bundle/view.h"
#include "bundle/weights.h"
#include "bundle/writer.h"
#include "henry/abi/extern_abi.h"
#include "henry/record.h"
#include "henry/tensor.h"
#include "unit/bundle/image_fixture.h"
#include "unit/harness.h"

#include <dirent.h>
#include <stdlib.h>

/* A bundle may have no key; the writer puts it last. */
TEST(a_key_may_be_missing) {
    hn_strbuf image;
    hn_bundle b;
    make_image(&image);
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    EXPECT(b.key_bytes == 7 && memcmp(b.key, "the key", 7) == 0);
    hnb_header *header = (hnb_header *)(void *)image.ptr;
    for (int missing = 1; missing <= 2; missing++) {
        header->section_count--;
        seal(&image);
        if (missing == 1) EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
        else
            EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT,
                         "lacks section 'blob'");
        EXPECT_INT(b.key_bytes, 0);
    }
    hn_strbuf_deinit(&image);
}

TEST(opens_and_evaluates) {
    hn_strbuf image, text;
    hn_bundle b;
    make_image(&image);
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    EXPECT_INT(b.inputs_count, 1);
    EXPECT_INT(b.nodes_count, 5);
    EXPECT_STR(hn_bundle_text(&b, b.symbols[0].name), "s0");
    EXPECT_INT(b.header->weights_offset % HNB_WEIGHTS_ALIGN, 0);
    EXPECT(memcmp(b.bytes + b.header->weights_offset, (const float[]){1, 2, 3, 4}, 16) == 0);
    int64_t symbol = 21, values[5];
    uint8_t bad[5];
    hn_bundle_eval(&b, &symbol, 1, values, bad);
    EXPECT(!bad[4] && values[4] == 42);
    symbol = INT64_MAX;
    hn_bundle_eval(&b, &symbol, 1, values, bad);
    EXPECT(bad[4] && !bad[1]);
    hn_strbuf_init(&text);
    hn_bundle_expr_print(&b, 4, &text);
    EXPECT_STR(text.ptr, "2*s0");
    hn_strbuf_reset(&text);
    hn_bundle_describe_text(&b, &text);
    static const char *const lines[] = {
        "guard s0 != 2 (x)",
        "buffer b1 input f32[2*s0] strides [1] 0\n",
        "buffer b2 output f32[2] strides [1] bytes 2*s0\n",
        "step 0 copy b2 <- b1",
        "target 0 cpu x86-64-v3, 7 bytes of code, needs avx2 fma",
        "kernel 1 double(f32, out f32): x86-64-v3 object 0, generic object 1",
        "step 1 kernel double(b1, out b2)\n",
        "  on generic extent 2*s0 grain 32\n",
        "workspace 2*s0 bytes\nworkspace on opencl 2 bytes\n"};
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
        if (!strstr(text.ptr, lines[k])) HN_TEST_FAIL("no line '%s' in\n%s", lines[k], text.ptr);
    hn_strbuf_reset(&text);
    hn_bundle_describe_json(&b, &text);
    static const char *const parts[] = {
        "\"shape\":[\"2*s0\"]",
        "\"memory\":[{\"buffer\":1,\"kind\":\"input\",\"device\":\"cpu\",\"dtype\":\"f32\",\"shape\":[\"2*s0\"],\"strides\":[1]},"
        "{\"buffer\":2,\"kind\":\"output\",\"device\":\"cpu\",\"dtype\":\"f32\",\"shape\":[2],\"strides\":[1],\"bytes\":\"2*s0\"},",
        "\"workspaces\":[{\"device\":\"cpu\",\"bytes\":\"2*s0\"},{\"device\":\"opencl\",\"bytes\":2}]",
        "\"needs\":[\"avx2\",\"fma\"]",
        "{\"target\":\"generic\",\"object\":1,\"symbol\":\"double\"}",
        "\"kernel\":\"double\",\"target\":\"generic\",\"origins\":[],\"buffers\":[1,2],\"params\":[],\"extent\":\"2*s0\",\"grain\":32",
        "\"records\":[{\"step\":1,\"target\":\"x86-64-v3\",\"category\":\"pointwise\",\"part\":0,\"read_bytes\":96,"
        "\"read_bytes_expr\":\"2*s0\",\"written_bytes\":97,\"is_bound\":false,\"operations\":98,\"form\":\"x\"",
        "\"rows\":[\"2*s0\"],\"inner\":[1]},{\"step\":1,\"target\":\"generic\""};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (!strstr(text.ptr, parts[k])) HN_TEST_FAIL("no '%s' in\n%s", parts[k], text.ptr);
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&image);
}

/* Both descriptions of programs for devices with groups of threads. */
TEST(programs_for_devices_are_described) {
    static const struct {
        const code_cases *code;
        const char *lines[6], *parts[4];
    } cases[] = {
        {&cuda,
         {"target 1 cuda compute_80, 5 bytes of code\n", "sm_90 object 0, compute_80 object 1\n",
          "step 0 copy b2 <- b3 on cuda\n", "step 1 kernel double(b1, out b3) on cuda\n",
          "  on sm_90 grid 2*s0 x 1 x 1 block 128 x 1 x 1 shared 2\n",
          "object 1 'kernels' ptx for compute_80 embedded 5 bytes"},
         {"\"grid\":[\"2*s0\",1,1],\"block\":[128,1,1],\"shared_bytes\":2",
          "\"kind\":\"cubin\",\"target\":\"sm_90\"", "\"kind\":\"input\",\"device\":\"cuda\"",
          "{\"target\":\"compute_80\",\"object\":1,\"symbol\":\"double\"}"}},
        {&opencl,
         {"target 0 opencl opencl, 6 bytes of code\n", "step 0 copy b2 <- b3 on opencl\n",
          "step 1 kernel double(b1, out b3) on opencl grid 2*s0 x 1 x 1 block 128 x 1 x 1 shared 2\n",
          "step 2 wait opencl\n", "object 0 'kernels' opencl for opencl embedded 6 bytes",
          "buffer b3 slot f32[] strides [] on opencl 0 bytes 2*s0\n"},
         {"\"kind\":\"opencl\",\"name\":\"opencl\"", "\"kind\":\"opencl\",\"target\":\"opencl\"",
          "\"kind\":\"slot\",\"device\":\"opencl\"", "\"steps\":3,\"kernel_calls\":1"}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hn_strbuf image, text;
        hn_bundle b;
        make_image_of(cases[c].code, &image);
        hn_strbuf_init(&text);
        EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
        hn_bundle_describe_text(&b, &text);
        for (size_t k = 0; k < 6; k++)
            if (!strstr(text.ptr, cases[c].lines[k]))
                HN_TEST_FAIL("no line '%s' in\n%s", cases[c].lines[k], text.ptr);
        hn_strbuf_reset(&text);
        hn_bundle_describe_json(&b, &text);
        for (size_t k = 0; k < 4; k++)
            if (!strstr(text.ptr, cases[c].parts[k]))
                HN_TEST_FAIL("no '%s' in\n%s", cases[c].parts[k], text.ptr);
        hn_strbuf_deinit(&text);
        hn_strbuf_deinit(&image);
    }
}

TEST(same_input_same_bytes) {
    hn_strbuf a, b;
    make_image(&a);
    make_image(&b);
    EXPECT(a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0);
    hn_strbuf_deinit(&a);
    hn_strbuf_deinit(&b);
}

/* What `henry inspect --verify` compares. */
static hn_status verify_all(const void *bytes, size_t len) {
    hn_bundle b;
    HN_TRY(hn_bundle_open(bytes, len, true, &b));
    HN_TRY(hn_bundle_check_code(&b));
    return hn_bundle_weights_check(&b, true);
}

/* Every byte counts: those of part one by its digest, of code and weights by theirs, of the gaps
 * because they are zeros. */
TEST(every_damaged_byte_is_found) {
    hn_strbuf image;
    hn_bundle b;
    make_image(&image);
    size_t unsigned_from = offsetof(hnb_header, signer), unsigned_to = sizeof(hnb_header);
    for (size_t at = 0; at < image.len; at++) {
        if (at >= unsigned_from && at < unsigned_to) continue; /* test_sign.c */
        image.ptr[at] ^= (char)(1 << at % 8);
        hn_status status = verify_all(image.ptr, image.len);
        if (!status) HN_TEST_FAIL("a changed byte at %zu was accepted", at);
        hn_status_free(status);
        image.ptr[at] ^= (char)(1 << at % 8);
    }
    const hnb_header *h = (const hnb_header *)(const void *)image.ptr;
    size_t without_weights = h->code_offset + h->code_bytes;
    char *copy = malloc(image.len + 8);
    memcpy(copy, image.ptr, image.len);
    memset(copy + image.len, 0, 8);
    for (size_t len = 0; len <= image.len + 8; len++) {
        if (len == image.len) continue;
        hn_status status = verify_all(copy, len);
        /* an empty file is of no kind */
        EXPECT_INT(hn_status_code(status), len ? HN_CORRUPT : HN_INVALID_ARGUMENT);
        hn_status_free(status);
    }
    free(copy);
    EXPECT_OK(verify_all(image.ptr, image.len));
    EXPECT_OK(hn_bundle_open(image.ptr, without_weights, true, &b));
    EXPECT_ERROR(hn_bundle_weights_check(&b, false), HN_CORRUPT, "cut off");
    hn_strbuf_deinit(&image);
}

TEST(other_versions_are_refused) {
    hn_strbuf image;
    hn_bundle b;
    make_image(&image);
    hnb_header *h = (hnb_header *)(void *)image.ptr;
    h->version = 77;
    seal(&image);
    EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_INCOMPATIBLE,
                 "format version 77, this library reads 12 to 15");
    h->version = 5;
    seal(&image);
    EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_INCOMPATIBLE,
                 "format version 5, this library reads 12 to 15; compile the model again");
    h->version = 2;
    EXPECT_ERROR(hn_bundle_open(image.ptr, 88, true, &b), HN_INCOMPATIBLE,
                 "format version 2, this library reads 12 to 15; compile the model again");

    h->version = HNB_VERSION, h->kernel_abi = 9;
    seal(&image);
    EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_INCOMPATIBLE, "kernel ABI 9");
    h->magic[0] = 'x';
    EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT, "magic");
    EXPECT_ERROR(hn_bundle_open(image.ptr + 4, image.len - 4, true, &b), HN_INVALID_ARGUMENT,
                 "aligned");
    hn_strbuf_deinit(&image);
}

/* A field of a good image with another value, and what is said then. */
typedef struct hostile_field {
    const char *message;
    uint32_t section, index;
    size_t offset;
    uint32_t value;
} hostile_field;

#define RECORDS (HNB_RECORDS | HNB_SECTION_EXTRA)

static void refuse(const code_cases *code, const hostile_field *field) {
    hn_strbuf image;
    hn_bundle b;
    make_image_of(code, &image);
    const hnb_section *table = (const hnb_section *)(const void *)(image.ptr + sizeof(hnb_header));
    const uint32_t sections = ((const hnb_header *)(const void *)image.ptr)->section_count;
    for (uint32_t i = 0; i < sections; i++) {
        if (table[i].kind != field->section) continue;
        const size_t at = table[i].offset + field->index * table[i].elem_bytes + field->offset;
        memcpy(image.ptr + at, &field->value, sizeof field->value);
    }
    seal(&image);
    EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT, field->message);
    hn_strbuf_deinit(&image);
}

/* What a digest cannot find: files made to hurt. */
TEST(hostile_fields_are_refused) {
    static const hostile_field cases[] = {
        {"expression node 4", HNB_NODES, 4, offsetof(hnb_node, a), 4},
        {"expression node 1", HNB_NODES, 1, offsetof(hnb_node, a), 1},
        {"expression node 2", HNB_NODES, 2, offsetof(hnb_node, op), 99},
        {"symbol 0", HNB_SYMBOLS, 0, offsetof(hnb_symbol, dim), 1},
        {"symbol 0", HNB_SYMBOLS, 0, offsetof(hnb_symbol, rest), 1},
        {"symbol 0", HNB_SYMBOLS, 0, offsetof(hnb_symbol, coeff), 0},
        {"guard 0", HNB_GUARDS, 0, offsetof(hnb_guard, lhs), 0},
        {"tensor 0", HNB_TENSORS, 0, offsetof(hnb_tensor, name) + 4, 0},
        {"tensor 0", HNB_TENSORS, 0, offsetof(hnb_tensor, kind), 3},
        {"tensor 0", HNB_TENSORS, 0, offsetof(hnb_tensor, dtype), 0},
        {"tensor 0", HNB_TENSORS, 0, offsetof(hnb_tensor, rank), 17},
        {"tensor 0", HNB_TENSORS, 0, offsetof(hnb_tensor, dims), 3},
        /* a size that is no constant */
        {"tensor 0", HNB_TENSORS, 0, offsetof(hnb_tensor, dims), 0},
        {"tensor 0", HNB_TENSORS, 0, offsetof(hnb_tensor, storage), 2},
        {"tensor 0", HNB_TENSORS, 0, offsetof(hnb_tensor, is_folded), 2},
        /* beyond the end of the storage */
        {"tensor 0", HNB_TENSORS, 0, offsetof(hnb_tensor, offset), 3},
        {"tensor 0", HNB_TENSORS, 0, offsetof(hnb_tensor, offset) + 4, UINT32_MAX},
        {"input 0", HNB_INPUTS, 0, offsetof(hnb_input, rank), 17},
        {"input 0", HNB_INPUTS, 0, offsetof(hnb_input, dims), 3},
        {"input 0", HNB_INPUTS, 0, offsetof(hnb_input, dtype), 11},
        {"output 0", HNB_OUTPUTS, 0, offsetof(hnb_output, buffer), 5},
        {"output 0", HNB_OUTPUTS, 0, offsetof(hnb_output, is_mutation), 1},
        {"dimension 0", HNB_DIMS, 0, 0, 5},
        {"buffer 1", HNB_BUFFERS, 1, offsetof(hnb_buffer, source), 1},
        {"buffer 2", HNB_BUFFERS, 2, offsetof(hnb_buffer, bytes), 0},
        {"buffer 2", HNB_BUFFERS, 2, offsetof(hnb_buffer, device), HN_DEVICE_KIND_COUNT},
        /* its input has rank 1 and f32 */
        {"shape of buffer 1", HNB_BUFFERS, 1, offsetof(hnb_buffer, rank), 0},
        {"shape of buffer 1", HNB_BUFFERS, 1, offsetof(hnb_buffer, dtype), HN_F64},
        {"shape of buffer 2", HNB_BUFFERS, 2, offsetof(hnb_buffer, rank), HNB_MAX_RANK + 1},
        {"shape of buffer 2", HNB_BUFFERS, 2, offsetof(hnb_buffer, rank), UINT32_MAX},
        {"shape of buffer 2", HNB_BUFFERS, 2, offsetof(hnb_buffer, dims), 3},
        {"shape of buffer 2", HNB_BUFFERS, 2, offsetof(hnb_buffer, dims), UINT32_MAX},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, buffer), 1},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, kind), HNB_STEP_KERNEL},
        {"step 1", HNB_STEPS, 1, offsetof(hnb_step, launches), 1},
        {"step 1", HNB_STEPS, 1, offsetof(hnb_step, launch_count), 3},
        {"step 1", HNB_STEPS, 1, offsetof(hnb_step, launch_count), 0},
        {"step 1", HNB_STEPS, 1, offsetof(hnb_step, operand_count), 1},
        {"step 1", HNB_LAUNCHES, 1, offsetof(hnb_launch, extent), 0},
        {"step 1", HNB_LAUNCHES, 1, offsetof(hnb_launch, operands), 1},
        {"step 1", HNB_LAUNCHES, 1, offsetof(hnb_launch, shared), 6},
        {"step 1", HNB_STEPS, 1, offsetof(hnb_step, device), HN_DEVICE_OPENCL},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, device), HN_DEVICE_OPENCL},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, kind), HNB_STEP_WAIT}, /* for the CPU */
        {"step 1", HNB_LAUNCHES, 0, offsetof(hnb_launch, param_count), 1},
        {"target 1", HNB_TARGETS, 1, offsetof(hnb_target, kind), HNB_TARGET_KIND_COUNT},
        /* CPUs come first */
        {"target 1", HNB_TARGETS, 0, offsetof(hnb_target, kind), HNB_TARGET_CUDA},
        {"target 0", HNB_TARGETS, 0, offsetof(hnb_target, feature_count), 3},
        {"object 0", HNB_OBJECTS, 0, offsetof(hnb_object, kind), HNB_OBJECT_CUBIN},
        {"object 1", HNB_OBJECTS, 1, offsetof(hnb_object, offset), 0},
        {"object 1", HNB_OBJECTS, 1, offsetof(hnb_object, offset), 100},
        {"object 1", HNB_OBJECTS, 1, offsetof(hnb_object, len), 8},
        {"object 1", HNB_OBJECTS, 1, offsetof(hnb_object, target), 2},
        {"kernel 1", HNB_KERNELS, 1, offsetof(hnb_kernel, codes), 1},
        {"kernel 1", HNB_KERNELS, 1, offsetof(hnb_kernel, arg_count), 3},
        {"kernel 1", HNB_CODES, 1, offsetof(hnb_code, object), 0},
        {"kernel 1", HNB_CODES, 1, offsetof(hnb_code, object), 2},
        {"argument 1", HNB_ARGS, 1, 0, 2 | 2 << 8},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, operands), 3},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, origin), 1},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, origin_count), 1},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, origins), UINT32_MAX},
        {"storage 1 lies outside", HNB_STORAGES, 1, offsetof(hnb_storage, bytes), 17},
        {"feature 0", HNB_FEATURES, 0, offsetof(hnb_str, len), 7},
        {"info", HNB_INFO, 0, offsetof(hnb_info, model) + 4, 100},
        {"workspace 0", HNB_WORKSPACES, 0, offsetof(hnb_workspace, bytes), 6},
        {"workspace 0", HNB_WORKSPACES, 0, offsetof(hnb_workspace, bytes), 0},
        {"workspace 1", HNB_WORKSPACES, 1, offsetof(hnb_workspace, device), HN_DEVICE_KIND_COUNT},
        /* twice */
        {"workspace 1", HNB_WORKSPACES, 1, offsetof(hnb_workspace, device), HN_DEVICE_CPU},
        {"record 0", RECORDS, 0, offsetof(hnb_record, step), 3},
        {"record 0", RECORDS, 0, offsetof(hnb_record, step), 0}, /* a copy has none */
        {"record 1", RECORDS, 1, offsetof(hnb_record, target), 2},
        {"record 1", RECORDS, 1, offsetof(hnb_record, target), 0}, /* twice */
        {"record 0", RECORDS, 0, offsetof(hnb_record, rank), 33},
        {"record 0", RECORDS, 0, offsetof(hnb_record, row_rank), 3},
        {"record 0", RECORDS, 0, offsetof(hnb_record, dims), 3},
        {"record 0", RECORDS, 0, offsetof(hnb_record, read_expr), 6},
        {"record 0", RECORDS, 0, offsetof(hnb_record, written_expr), 6},
        {"record 0", RECORDS, 0, offsetof(hnb_record, operations_expr), UINT32_MAX},
        {"record 1", RECORDS, 1, offsetof(hnb_record, form) + 4, UINT32_MAX},
        {"slot of buffer 4", HNB_BUFFERS, 4, offsetof(hnb_buffer, device), HN_DEVICE_OPENCL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) refuse(&levels, &cases[c]);
}

/* Sections that nobody needs: those of a later version are left out. */
TEST(sections_that_are_not_known_may_be_left_out) {
    static const struct {
        uint32_t kind, elem_bytes;
        const char *refused; /* NULL: it is not */
    } cases[] = {
        {RECORDS, sizeof(hnb_record), NULL},
        {RECORDS, 8, NULL}, /* records of another size */
        {99 | HNB_SECTION_EXTRA, 8, NULL},
        {99, 8, "unknown kind 99"},
        {HNB_RECORDS, sizeof(hnb_record), "unknown kind"},
        {HNB_NODES | HNB_SECTION_EXTRA, sizeof(hnb_node), "unknown kind"},
        {99 | HNB_SECTION_EXTRA, UINT32_MAX, "outside the file"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hn_strbuf image;
        hn_bundle b;
        make_image(&image);
        hnb_section *table = (hnb_section *)(void *)(image.ptr + sizeof(hnb_header));
        while (table->kind != RECORDS) table++;
        table->kind = cases[c].kind, table->elem_bytes = cases[c].elem_bytes;
        seal(&image);
        hn_status status = hn_bundle_open(image.ptr, image.len, true, &b);
        if (cases[c].refused) EXPECT_ERROR(status, HN_CORRUPT, cases[c].refused);
        else EXPECT_OK(status);
        if (!cases[c].refused) EXPECT((hn_bundle_record_find(&b, 1, 0) != NULL) == !c);
        hn_strbuf_deinit(&image);
    }
}

TEST(records_are_found_by_step_and_target) {
    hn_strbuf image;
    hn_bundle b;
    make_image(&image);
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    EXPECT_INT(b.records_count, 2);
    EXPECT(hn_bundle_record_find(&b, 1, 0) == &b.records[0]);
    EXPECT(hn_bundle_record_find(&b, 1, 1) == &b.records[1]);
    EXPECT(hn_bundle_record_find(&b, 1, 7) == &b.records[0]); /* one for all targets */
    EXPECT(!hn_bundle_record_find(&b, 0, 0) && !hn_bundle_record_find(&b, 2, 0));
    EXPECT_STR(hn_step_category_name((hn_step_category)99), "unknown");
    hn_strbuf_deinit(&image);
}

/* The same for what only programs for devices have. */
TEST(hostile_fields_of_devices_are_refused) {
    static const hostile_field cases[] = {
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, device), HN_DEVICE_CPU},
        /* to another device */
        {"step 0", HNB_BUFFERS, 2, offsetof(hnb_buffer, device), HN_DEVICE_CUDA},
        {"step 1", HNB_STEPS, 1, offsetof(hnb_step, device), HN_DEVICE_CPU},
        {"step 1", HNB_STEPS, 1, offsetof(hnb_step, device), HN_DEVICE_KIND_COUNT},
        /* a kernel and host memory */
        {"step 1", HNB_BUFFERS, 1, offsetof(hnb_buffer, device), HN_DEVICE_CPU},
        {"step 1", HNB_OPERANDS, 1, 0, 2}, /* likewise */
        {"step 1", HNB_LAUNCHES, 0, offsetof(hnb_launch, grid), 6},
        {"step 1", HNB_LAUNCHES, 0, offsetof(hnb_launch, grid) + 4, 0},
        {"step 1", HNB_LAUNCHES, 0, offsetof(hnb_launch, block) + 8, 0},
        {"step 1", HNB_LAUNCHES, 0, offsetof(hnb_launch, block) + 8, HNB_MAX_GROUP_THREADS},
        {"step 1", HNB_LAUNCHES, 0, offsetof(hnb_launch, block), UINT32_MAX},
        {"step 1", HNB_LAUNCHES, 0, offsetof(hnb_launch, shared), 6},
        {"step 2", HNB_STEPS, 2, offsetof(hnb_step, device), HN_DEVICE_CPU},
        {"step 2", HNB_STEPS, 2, offsetof(hnb_step, operand_count), 1},
        {"object 0", HNB_OBJECTS, 0, offsetof(hnb_object, kind), HNB_OBJECT_CUBIN},
        {"object 0", HNB_OBJECTS, 0, offsetof(hnb_object, kind), HNB_OBJECT_KIND_COUNT},
        {"object 0", HNB_TARGETS, 0, offsetof(hnb_target, kind), HNB_TARGET_CUDA},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) refuse(&opencl, &cases[c]);
    /* A program runs on one kind of device. */
    refuse(&cuda, &(hostile_field){"object 1", HNB_TARGETS, 1, offsetof(hnb_target, kind),
                                   HNB_TARGET_OPENCL});
}

/* A call of `nms`, which needs two operands and writes the first: as it should be, and with one
 * thing wrong. */
TEST(an_extern_call_has_what_its_kind_needs) {
    static const struct {
        uint32_t out, boxes, written, operands, params;
        bool is_right;
    } cases[] = {{2, 1, 1, 2, 2, true},  {2, 0, 1, 2, 2, false}, {0, 1, 0, 2, 2, false},
                 {2, 1, 0, 2, 2, false}, {2, 1, 1, 1, 2, false}, {2, 1, 1, 2, 1, false}};
    for (uint32_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hn_arena arena;
        hn_bundle_writer w;
        hn_strbuf image;
        hn_bundle b;
        hn_arena_init(&arena);
        hn_strbuf_init(&image);
        EXPECT_OK(hn_bundle_writer_init(&w, &arena));
        hnb_input inputs[1] = {{.dtype = HN_F32}};
        hnb_buffer buffers[3] = {{0},
                                 {.kind = HNB_BUFFER_INPUT, .dtype = HN_F32},
                                 {.kind = HNB_BUFFER_OUTPUT, .dtype = HN_BOOL}};
        hnb_operand operands[2] = {
            {.buffer = cases[c].out, .dtype = HN_BOOL, .written = (uint8_t)cases[c].written},
            {.buffer = cases[c].boxes, .dtype = HN_F32}};
        uint32_t params[2] = {0, 0};
        hnb_step steps[1] = {{.kind = HNB_STEP_EXTERN,
                              .extern_kind = HN_EXTERN_NMS,
                              .operand_count = cases[c].operands,
                              .param_count = cases[c].params}};
        EXPECT_OK(hn_nodes_add(&w.nodes, HNB_OP_CONST, 0, 8, &buffers[2].bytes));
        params[0] = params[1] = buffers[2].bytes;
        SET(inputs), SET(buffers), SET(operands), SET(params), SET(steps);
        EXPECT_OK(hn_bundle_writer_finish(&w, &image));
        if (cases[c].is_right) EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
        else EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT, "step 0");
        hn_strbuf_deinit(&image);
        hn_bundle_writer_deinit(&w);
        hn_arena_deinit(&arena);
    }
}

/* Numbers that cannot be a tensor in the memory of its buffer; with sizes that only a call knows:
 * test_buffers.c. */
TEST(a_tensor_lies_inside_its_buffer) {
    static const struct {
        int64_t sizes[2], strides[2], bytes;
        bool is_right;
    } cases[] = {{{2, 3}, {3, 1}, 24, true},          {{2, 3}, {3, 1}, 23, false},
                 {{2, 3}, {1, 2}, 24, true},          {{2, 3}, {4, 1}, 24, false},
                 {{2, 0}, {9, 9}, 0, true},           {{2, 3}, {0, 1}, 12, true},
                 {{-1, 3}, {3, 1}, 24, false},        {{2, 3}, {-3, 1}, 24, false},
                 {{INT64_MAX, 3}, {3, 1}, 24, false}, {{INT64_MAX, 1}, {1, 1}, INT64_MAX, false}};
    for (uint32_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hn_arena arena;
        hn_bundle_writer w;
        hn_strbuf image;
        hn_bundle b;
        hn_arena_init(&arena);
        hn_strbuf_init(&image);
        EXPECT_OK(hn_bundle_writer_init(&w, &arena));
        uint32_t dims[4];
        hnb_buffer buffers[2] = {{0}, {.kind = HNB_BUFFER_OUTPUT, .dtype = HN_F32, .rank = 2}};
        for (uint32_t d = 0; d < 2; d++) {
            EXPECT_OK(hn_nodes_add(&w.nodes, HNB_OP_CONST, 0, cases[c].sizes[d], &dims[d]));
            EXPECT_OK(hn_nodes_add(&w.nodes, HNB_OP_CONST, 0, cases[c].strides[d], &dims[2 + d]));
        }
        EXPECT_OK(hn_nodes_add(&w.nodes, HNB_OP_CONST, 0, cases[c].bytes, &buffers[1].bytes));
        SET(dims), SET(buffers);
        EXPECT_OK(hn_bundle_writer_finish(&w, &image));
        if (cases[c].is_right) EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
        else
            EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT,
                         "shape of buffer 1");
        hn_strbuf_deinit(&image);
        hn_bundle_writer_deinit(&w);
        hn_arena_deinit(&arena);
    }
}

/* A program that writes to its own input by defining a symbol, and one that reads it. */
TEST(a_definition_only_reads) {
    for (uint32_t written = 0; written < 2; written++) {
        hn_arena arena;
        hn_bundle_writer w;
        hn_strbuf image;
        hn_bundle b;
        hn_arena_init(&arena);
        hn_strbuf_init(&image);
        EXPECT_OK(hn_bundle_writer_init(&w, &arena));
        hnb_symbol symbols[1] = {{.lo = 0, .hi = 8, .input = HNB_BY_STEP}};
        hnb_input inputs[1] = {{.dtype = HN_I64}};
        hnb_buffer buffers[3] = {{0},
                                 {.kind = HNB_BUFFER_INPUT, .dtype = HN_I64},
                                 {.kind = HNB_BUFFER_OUTPUT, .dtype = HN_I64}};
        hnb_operand operands[1] = {{.buffer = 2, .dtype = HN_I64, .written = (uint8_t)written}};
        hnb_step steps[1] = {{.kind = HNB_STEP_DEFINE, .operand_count = 1}};
        EXPECT_OK(hn_nodes_add(&w.nodes, HNB_OP_CONST, 0, 8, &buffers[2].bytes));
        SET(symbols), SET(inputs), SET(buffers), SET(operands), SET(steps);
        EXPECT_OK(hn_bundle_writer_finish(&w, &image));
        if (written)
            EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT, "step 0");
        else EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
        hn_strbuf_deinit(&image);
        hn_bundle_writer_deinit(&w);
        hn_arena_deinit(&arena);
    }
}

/* Behind an object stands a zero: readers of PTX look for it. Here its digest fits and the zero is
 * missing. */
TEST(an_object_ends_with_a_zero) {
    hn_strbuf image;
    hn_bundle b;
    hn_str code;
    make_image(&image);
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    EXPECT_OK(hn_bundle_object_get(&b, 1, true, &code));
    image.ptr[code.ptr - image.ptr + (ptrdiff_t)code.len] = 'x';
    EXPECT_ERROR(hn_bundle_object_get(&b, 1, true, &code), HN_CORRUPT, "object 1");
    hn_strbuf_deinit(&image);
}

/* No more lies between the parts than alignment asks for: whole pages there would be bytes that
 * nothing covers. */
TEST(parts_lie_close_together) {
    hn_strbuf image;
    hn_bundle b;
    make_image(&image);
    size_t len = image.len + HNB_WEIGHTS_ALIGN;
    char *copy = aligned_alloc(64, (len + 63) / 64 * 64);
    hnb_header *h = (hnb_header *)(void *)copy;
    const hnb_header *old = (const hnb_header *)(const void *)image.ptr;
    memcpy(copy, image.ptr, old->weights_offset);
    memset(copy + old->weights_offset, 'x', HNB_WEIGHTS_ALIGN);
    memcpy(copy + old->weights_offset + HNB_WEIGHTS_ALIGN, image.ptr + old->weights_offset,
           old->weights_bytes);
    h->weights_offset += HNB_WEIGHTS_ALIGN;
    h->file_bytes += HNB_WEIGHTS_ALIGN;
    hn_digest digest = hn_bundle_meta_digest(copy, h->meta_bytes);
    memcpy(h->digest, digest.bytes, sizeof digest.bytes);
    EXPECT_ERROR(hn_bundle_open(copy, len, true, &b), HN_CORRUPT, "bundle header");
    free(copy);
    hn_strbuf_deinit(&image);
}

TEST(hostile_sections_are_refused) {
    for (uint32_t field = 0; field < 4; field++) {
        hn_strbuf image;
        hn_bundle b;
        make_image(&image);
        hnb_section *table = (hnb_section *)(void *)(image.ptr + sizeof(hnb_header));
        if (field == 0) table[3].kind = table[2].kind;
        if (field == 1) table[3].elem_bytes++;
        if (field == 2) table[3].offset = UINT64_MAX - 63;
        if (field == 3) table[3].count = UINT64_MAX / 4;
        seal(&image);
        EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT, "bundle ");
        hn_strbuf_deinit(&image);
    }
}

/* The fuzz target sets the version itself, so it does not show when a file of the corpus is of an
 * older one: its sections are refused before anything in them is read. */
TEST(the_fuzz_corpus_has_this_version) {
    static const char folder[] = "tests/fuzz/corpus/bundle";
    DIR *dir = opendir(folder);
    uint32_t count = 0;
    EXPECT(dir != NULL);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[512];
        hn_strbuf file;
        uint32_t version = 0;
        if (!strstr(e->d_name, ".hnb")) continue;
        hn_strbuf_init(&file);
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        EXPECT_OK(hn_file_read(path, &file));
        if (file.len >= sizeof(hnb_header))
            memcpy(&version, file.ptr + offsetof(hnb_header, version), sizeof version);
        if (version < HNB_VERSION_SINGLE || version > HNB_VERSION_VARIANTS)
            HN_TEST_FAIL("%s is of version %u; convert it, or make the corpus anew", path, version);
        hn_strbuf_deinit(&file);
        count++;
    }
    if (dir) closedir(dir);
    EXPECT(count > 20);
}

TEST_MAIN
