/* test_bundle.c: images that the writer makes open; damaged and foreign ones are refused with a reason. */
#include "base/hash.h"
#include "bundle/view.h"
#include "bundle/writer.h"
#include "unit/harness.h"

#include <stdlib.h>

/* y = copy of x with 2*s0 + w elements; one weight, one object, one guard. */
static void make_image(hn_strbuf *out) {
    static const float weight[4] = {1, 2, 3, 4};
    hn_arena arena;
    hn_bundle_writer w;
    uint32_t s0, two, size, one;
    uint64_t offset;
    hn_arena_init(&arena);
    EXPECT_OK(hn_bundle_writer_init(&w, &arena));
    hnb_str name = {0}, symbol = {0};
    EXPECT_OK(hn_bundle_writer_str(&w, HN_STR("x"), &name));
    EXPECT_OK(hn_bundle_writer_str(&w, HN_STR("s0"), &symbol));
    EXPECT_OK(hn_bundle_writer_node(&w, HNB_OP_SYMBOL, 0, 0, &s0));
    EXPECT_OK(hn_bundle_writer_node(&w, HNB_OP_CONST, 0, 2, &two));
    EXPECT_OK(hn_bundle_writer_node(&w, HNB_OP_CONST, 0, 1, &one));
    EXPECT_OK(hn_bundle_writer_node(&w, HNB_OP_MUL, two, s0, &size));
    EXPECT_OK(hn_bundle_writer_piece(&w, &w.weights, weight, sizeof weight, &offset));
    w.weights_digest = true;
    static hnb_symbol symbols[1];
    static hnb_guard guards[1];
    static hnb_input inputs[1];
    static hnb_output outputs[1];
    static uint32_t dims[2];
    static hnb_buffer buffers[3];
    static hnb_step steps[1];
    static hnb_storage storages[2];
    static hnb_str features[1];
    symbols[0] = (hnb_symbol){.name = symbol, .lo = 1, .hi = INT64_MAX, .coeff = 2};
    guards[0] = (hnb_guard){.relation = HNB_NE, .lhs = s0, .rhs = two, .reason = name};
    dims[0] = size, dims[1] = one;
    inputs[0] = (hnb_input){.name = name, .dtype = 2, .rank = 1};
    outputs[0] = (hnb_output){.name = name, .dtype = 2, .rank = 1, .buffer = 2, .target_input = -1};
    buffers[1] = (hnb_buffer){.kind = HNB_BUFFER_INPUT, .dtype = 2};
    buffers[2] = (hnb_buffer){.kind = HNB_BUFFER_OUTPUT, .dtype = 2, .bytes = size};
    steps[0] = (hnb_step){.kind = HNB_STEP_COPY, .buffer = 2, .from = 1};
    storages[1] = (hnb_storage){.where = HNB_STORAGE_WEIGHTS, .bytes = sizeof weight, .offset = offset};
    EXPECT_OK(hn_bundle_writer_str(&w, HN_STR("sse2"), &features[0]));
#define SET(member) w.member.items = member, w.member.count = w.member.cap = sizeof member / sizeof member[0]
    SET(symbols), SET(guards), SET(inputs), SET(outputs), SET(dims), SET(buffers), SET(steps), SET(storages), SET(features);
    hn_strbuf_init(out);
    EXPECT_OK(hn_bundle_writer_finish(&w, out));
    hn_bundle_writer_deinit(&w);
    hn_arena_deinit(&arena);
}

static void seal(hn_strbuf *image) {
    hnb_header *h = (hnb_header *)(void *)image->ptr;
    hn_digest digest = hn_bundle_meta_digest(image->ptr, h->meta_bytes);
    memcpy(h->digest, digest.bytes, sizeof digest.bytes);
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
    EXPECT(strstr(text.ptr, "guard s0 != 2 (x)") && strstr(text.ptr, "step 0 copy b2 <- b1") && strstr(text.ptr, "cpu features: sse2"));
    hn_strbuf_reset(&text);
    hn_bundle_describe_json(&b, &text);
    EXPECT(strstr(text.ptr, "\"shape\":[\"2*s0\"]") && strstr(text.ptr, "\"cpu_features\":[\"sse2\"]"));
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&image);
}

TEST(same_input_same_bytes) {
    hn_strbuf a, b;
    make_image(&a);
    make_image(&b);
    EXPECT(a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0);
    hn_strbuf_deinit(&a);
    hn_strbuf_deinit(&b);
}

/* Any changed byte of part one is found by the digest, any length but the right ones by the header. */
TEST(every_damaged_byte_is_found) {
    hn_strbuf image;
    hn_bundle b;
    make_image(&image);
    size_t meta = ((const hnb_header *)(const void *)image.ptr)->meta_bytes;
    for (size_t at = 0; at < meta; at++) {
        image.ptr[at] ^= 0x10;
        hn_status status = hn_bundle_open(image.ptr, image.len, true, &b);
        if (!status) HN_TEST_FAIL("a changed byte at %zu was accepted", at);
        hn_status_free(status);
        image.ptr[at] ^= 0x10;
    }
    for (size_t len = 0; len <= image.len + 8; len += len < meta + 8 ? 1 : 4096) {
        if (len == image.len || len == meta) continue;
        void *copy = calloc(1, len + 1);
        memcpy(copy, image.ptr, len < image.len ? len : image.len);
        hn_status status = hn_bundle_open(copy, len, true, &b);
        EXPECT_INT(hn_status_code(status), HN_CORRUPT);
        hn_status_free(status);
        free(copy);
    }
    EXPECT_OK(hn_bundle_open(image.ptr, image.len, true, &b));
    EXPECT_OK(hn_bundle_open(image.ptr, meta, true, &b));
    hn_strbuf_deinit(&image);
}

TEST(other_versions_are_refused) {
    hn_strbuf image;
    hn_bundle b;
    make_image(&image);
    hnb_header *h = (hnb_header *)(void *)image.ptr;
    h->version = 77;
    seal(&image);
    EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_INCOMPATIBLE, "format version 77, this library reads 2");
    h->version = HNB_VERSION, h->kernel_abi = 9;
    seal(&image);
    EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_INCOMPATIBLE, "kernel ABI 9");
    h->magic[0] = 'x';
    EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT, "magic");
    EXPECT_ERROR(hn_bundle_open(image.ptr + 4, image.len - 4, true, &b), HN_INVALID_ARGUMENT, "aligned");
    hn_strbuf_deinit(&image);
}

/* What a digest cannot find: files made to hurt. Each case changes one field of a good image. */
TEST(hostile_fields_are_refused) {
    static const struct { const char *message; uint32_t section, index; size_t offset; uint32_t value; } cases[] = {
        {"expression node 4", HNB_NODES, 4, offsetof(hnb_node, a), 4},
        {"expression node 1", HNB_NODES, 1, offsetof(hnb_node, a), 1},
        {"expression node 2", HNB_NODES, 2, offsetof(hnb_node, op), 99},
        {"symbol 0", HNB_SYMBOLS, 0, offsetof(hnb_symbol, dim), 1},
        {"symbol 0", HNB_SYMBOLS, 0, offsetof(hnb_symbol, rest), 1},
        {"symbol 0", HNB_SYMBOLS, 0, offsetof(hnb_symbol, coeff), 0},
        {"guard 0", HNB_GUARDS, 0, offsetof(hnb_guard, lhs), 0},
        {"input 0", HNB_INPUTS, 0, offsetof(hnb_input, rank), 17},
        {"input 0", HNB_INPUTS, 0, offsetof(hnb_input, dims), 1},
        {"input 0", HNB_INPUTS, 0, offsetof(hnb_input, dtype), 11},
        {"output 0", HNB_OUTPUTS, 0, offsetof(hnb_output, buffer), 3},
        {"output 0", HNB_OUTPUTS, 0, offsetof(hnb_output, is_mutation), 1},
        {"dimension 0", HNB_DIMS, 0, 0, 5},
        {"buffer 1", HNB_BUFFERS, 1, offsetof(hnb_buffer, source), 1},
        {"buffer 2", HNB_BUFFERS, 2, offsetof(hnb_buffer, bytes), 0},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, buffer), 1},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, kind), HNB_STEP_KERNEL},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, operands), 1},
        {"step 0", HNB_STEPS, 0, offsetof(hnb_step, origin), 1},
        {"storage 1 lies outside", HNB_STORAGES, 1, offsetof(hnb_storage, bytes), 17},
        {"feature 0", HNB_FEATURES, 0, offsetof(hnb_str, len), 5},
        {"info", HNB_INFO, 0, offsetof(hnb_info, workspace), 6},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        hn_strbuf image;
        hn_bundle b;
        make_image(&image);
        const hnb_section *table = (const hnb_section *)(const void *)(image.ptr + sizeof(hnb_header));
        for (uint32_t i = 0; i < HNB_SECTION_KIND_COUNT - 1; i++)
            if (table[i].kind == cases[c].section)
                memcpy(image.ptr + table[i].offset + cases[c].index * table[i].elem_bytes + cases[c].offset, &cases[c].value, 4);
        seal(&image);
        EXPECT_ERROR(hn_bundle_open(image.ptr, image.len, true, &b), HN_CORRUPT, cases[c].message);
        hn_strbuf_deinit(&image);
    }
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

TEST_MAIN
