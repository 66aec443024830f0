/* test_order.c: lines in another order give the same results, need no more memory, and stay where
 * they are when there is nothing to gain. */
#include "unit/wrapper/wrapper_fixture.h"
#include "wrapper/order.h"

#include <stdlib.h>

static hn_wbuf add_buffer(fixture *f, hn_wbuf_kind kind, int64_t bytes) {
    hn_wbuf b = 0;
    EXPECT_OK(hn_wrapper_add_buffer(
        f->w, (hn_wbuffer){.kind = kind, .dtype = HN_DTYPE_U8, .bytes = hn_sym_int(f->sym, bytes)},
        &b));
    return b;
}

/* `label` tells lines apart that read and write the same. */
static void add_call(fixture *f, hn_wbuf read, hn_wbuf read2, hn_wbuf write, uint32_t label) {
    hn_woperand operands[3];
    hn_expr param = hn_sym_int(f->sym, label);
    uint32_t count = 0;
    if (read) operands[count++] = (hn_woperand){.buffer = read, .dtype = HN_DTYPE_U8};
    if (read2) operands[count++] = (hn_woperand){.buffer = read2, .dtype = HN_DTYPE_U8};
    operands[count++] = (hn_woperand){.buffer = write, .dtype = HN_DTYPE_U8, .written = true};
    EXPECT_OK(hn_wrapper_add_line(f->w, (hn_line){.kind = HN_LINE_KERNEL,
                                                  .kernel = f->kernel,
                                                  .operands = operands,
                                                  .operand_count = count,
                                                  .params = &param,
                                                  .param_count = 1,
                                                  .extent = hn_sym_int(f->sym, 1)}));
}

static uint64_t mix(uint64_t a, uint64_t b) {
    return (a ^ b) * 0x9e3779b97f4a7c15ull + (a >> 29) + b;
}

/* What the buffers hold in the end, if every line mixes what it reads, what was there, and its
 * label. */
static uint64_t run(const fixture *f) {
    const hn_wrapper *w = f->w;
    uint64_t *values = calloc(w->buffers.count, sizeof *values), all = 0;
    for (uint32_t i = 0; values && i < w->lines.count; i++) {
        const hn_line *line = &w->lines.items[i];
        uint64_t value = 7;
        if (line->kind == HN_LINE_COPY) values[line->buffer] = values[line->from];
        if (line->kind != HN_LINE_KERNEL) continue;
        value = mix(value, (uint64_t)hn_sym_hint(w->sym, line->params[0], 0));
        for (uint32_t k = 0; k < line->operand_count; k++)
            value = mix(value, values[line->operands[k].buffer]);
        values[line->operands[line->operand_count - 1].buffer] = value;
    }
    for (uint32_t b = 0; values && b < w->buffers.count; b++) all = mix(all, values[b]);
    free(values);
    return all;
}

static int64_t planned(const fixture *f, hn_pool_mode pool) {
    hn_wrapper copy = *f->w;
    hn_memory_plan plan;
    hn_arena arena;
    hn_arena_init(&arena);
    copy.arena = &arena;
    EXPECT_OK(hn_wrapper_plan_with(&copy, &(hn_plan_options){pool}, &plan));
    EXPECT_OK(hn_wrapper_plan_verify(&copy, &plan));
    const int64_t bytes = hn_memory_plan_bytes(&copy, &plan);
    hn_arena_deinit(&arena);
    return bytes;
}

static void random_program(fixture *f) {
    hn_wbuf known[24] = {0};
    const uint32_t lines = 10 + draw(f, 120);
    for (uint32_t i = 0; i < lines; i++) {
        const uint32_t at = draw(f, 24);
        hn_wbuf to = known[draw(f, 24)];
        if (!to || draw(f, 5)) to = add_buffer(f, HN_WBUF_TEMP, 1 + draw(f, 1u << draw(f, 21)));
        if (draw(f, 12) == 0)
            EXPECT_OK(hn_wrapper_add_line(
                f->w, (hn_line){.kind = HN_LINE_COMMENT, .text = HN_STR("what follows")}));
        add_call(f, known[draw(f, 24)], known[draw(f, 24)], to, i);
        known[at] = to;
    }
    for (uint32_t k = 0; k < 4; k++) {
        const hn_line *last = &f->w->lines.items[f->w->lines.count - 1];
        const hn_wbuf b = last->operands[last->operand_count - 1].buffer;
        f->w->buffers.items[b].kind = HN_WBUF_OUTPUT;
        f->outputs[k] = (hn_woutput){.name = HN_STR("y"), .buffer = b, .dtype = HN_DTYPE_U8};
    }
    f->w->outputs.items = f->outputs;
    f->w->outputs.count = f->w->outputs.cap = 4;
}

TEST(random_programs_compute_the_same) {
    double before = 0, after = 0;
    uint32_t changed = 0;
    for (uint32_t seed = 0; seed < 300; seed++) {
        const hn_plan_options options = {seed % 2 ? HN_POOL_COMBINED : HN_POOL_INTERMEDIATES};
        fixture f, g;
        setup(&f, seed), setup(&g, seed);
        random_program(&f), random_program(&g);
        EXPECT_OK(hn_wrapper_verify(f.w));
        const uint64_t value = run(&f);
        const int64_t bytes = planned(&f, options.pool);
        EXPECT_OK(hn_wrapper_order(f.w, &options));
        EXPECT_OK(hn_wrapper_verify(f.w));
        EXPECT(run(&f) == value);
        const int64_t less = planned(&f, options.pool);
        EXPECT(less <= bytes);
        changed += less < bytes;
        before += (double)bytes, after += (double)less;
        EXPECT_OK(hn_wrapper_order(g.w, &options)); /* the same program: the same order */
        hn_strbuf a, b;
        hn_strbuf_init(&a), hn_strbuf_init(&b);
        hn_wrapper_print(f.w, &a), hn_wrapper_print(g.w, &b);
        EXPECT_STR(a.ptr, b.ptr);
        hn_strbuf_deinit(&a), hn_strbuf_deinit(&b);
        teardown(&f), teardown(&g);
    }
    printf("order: %u of 300 programs need less, %.3f of the bytes in all\n", changed,
           after / before);
    EXPECT(changed > 20);
}

/* ---- devices ---- */

/* The buffers of a program as those of a device, whose calls run there. */
static void put_on_device(fixture *f) {
    for (uint32_t b = 1; b < f->w->buffers.count; b++)
        f->w->buffers.items[b].device = HN_DEVICE_CUDA;
    for (uint32_t i = 0; i < f->w->lines.count; i++)
        if (f->w->lines.items[i].kind == HN_LINE_KERNEL)
            f->w->lines.items[i].device = HN_DEVICE_CUDA, f->w->lines.items[i].threads = 64;
}

static hn_wbuf add_device_buffer(fixture *f, hn_wbuf_kind kind, int64_t bytes) {
    const hn_wbuf b = add_buffer(f, kind, bytes);
    f->w->buffers.items[b].device = HN_DEVICE_CUDA;
    return b;
}

static void add_device_call(fixture *f, hn_wbuf read, hn_wbuf write, hn_wbuf workspace,
                            uint32_t label) {
    add_call(f, read, workspace, write, label);
    hn_line *line = &f->w->lines.items[f->w->lines.count - 1];
    hn_woperand *operands;
    line->device = HN_DEVICE_CUDA, line->threads = 64;
    if (!workspace) return;
    operands = hn_arena_alloc(&f->arena, line->operand_count * sizeof *operands);
    if (!operands) return;
    memcpy(operands, line->operands, line->operand_count * sizeof *operands);
    operands[line->operand_count - 2].written = true;
    line->operands = operands;
}

/* Two kernels of one operation, which have a workspace between them. */
static void add_pair(fixture *f, hn_wbuf read, hn_wbuf write, uint32_t label) {
    const hn_wbuf w = add_device_buffer(f, HN_WBUF_WORKSPACE, 1 + draw(f, 1 << 16));
    add_device_call(f, read, w, 0, label);
    if (draw(f, 2))
        EXPECT_OK(hn_wrapper_add_line(
            f->w, (hn_line){.kind = HN_LINE_COMMENT, .text = HN_STR("its second kernel")}));
    add_device_call(f, 0, write, w, label + 1000);
}

/* A line of the host, with copies there and back. */
static void add_host_line(fixture *f, hn_wbuf read, hn_wbuf write, uint32_t label) {
    const hn_wbuffer *to = &f->w->buffers.items[write];
    const hn_wbuf in =
        add_buffer(f, HN_WBUF_TEMP, hn_sym_hint(f->sym, f->w->buffers.items[read].bytes, 0));
    const hn_wbuf out = add_buffer(f, HN_WBUF_TEMP, hn_sym_hint(f->sym, to->bytes, 0));
    const hn_line copy = {.kind = HN_LINE_COPY, .buffer = in, .from = read},
                  wait = {.kind = HN_LINE_WAIT, .device = HN_DEVICE_CUDA},
                  back = {.kind = HN_LINE_COPY, .buffer = write, .from = out};
    EXPECT_OK(hn_wrapper_add_line(f->w, copy));
    EXPECT_OK(hn_wrapper_add_line(f->w, wait));
    add_call(f, in, 0, out, label);
    EXPECT_OK(hn_wrapper_add_line(f->w, back));
}

static void random_device_program(fixture *f) {
    hn_wbuf known[24] = {0}, to = 0;
    const uint32_t lines = 10 + draw(f, 120);
    for (uint32_t i = 0; i < lines; i++) {
        const uint32_t at = draw(f, 24), what = draw(f, 30);
        const hn_wbuf from = known[draw(f, 24)];
        to = add_device_buffer(f, HN_WBUF_TEMP, 1 + draw(f, 1u << draw(f, 21)));
        if (what < 8) add_pair(f, from, to, i);
        else if (what == 8 && from) add_host_line(f, from, to, i);
        else add_device_call(f, from, to, 0, i);
        known[at] = to;
    }
    f->w->buffers.items[to].kind = HN_WBUF_OUTPUT;
    f->outputs[0] = (hn_woutput){.name = HN_STR("y"), .buffer = to, .dtype = HN_DTYPE_U8};
    f->w->outputs.items = f->outputs;
    f->w->outputs.count = f->w->outputs.cap = 1;
}

/* The verifier holds the kernels of an operation together, and the host to its waits. */
TEST(random_programs_of_a_device_compute_the_same) {
    uint32_t changed = 0;
    for (uint32_t seed = 0; seed < 300; seed++) {
        const hn_plan_options options = {seed % 2 ? HN_POOL_COMBINED : HN_POOL_INTERMEDIATES};
        fixture f;
        setup(&f, 5000 + seed);
        random_device_program(&f);
        EXPECT_OK(hn_wrapper_verify(f.w));
        const uint64_t value = run(&f);
        const int64_t bytes = planned(&f, options.pool);
        EXPECT_OK(hn_wrapper_order(f.w, &options));
        EXPECT_OK(hn_wrapper_verify(f.w));
        EXPECT(run(&f) == value);
        const int64_t less = planned(&f, options.pool);
        EXPECT(less <= bytes);
        changed += less < bytes;
        teardown(&f);
    }
    printf("order: %u of 300 programs of a device need less\n", changed);
    EXPECT(changed > 20);
}

/* Forward lines, and beside each one a line whose result only the backward lines read. */
static void add_layers(fixture *f, uint32_t layers) {
    enum { SMALL = 1 << 12, LARGE = 1 << 20 };
    hn_wbuf x = add_buffer(f, HN_WBUF_TEMP, SMALL), saved[16], extra[16];
    add_call(f, 0, 0, x, 0);
    for (uint32_t k = 0; k < layers; k++) {
        saved[k] = x;
        extra[k] = add_buffer(f, HN_WBUF_TEMP, LARGE);
        add_call(f, x, 0, extra[k], k);
        x = add_buffer(f, HN_WBUF_TEMP, SMALL);
        add_call(f, saved[k], 0, x, k);
    }
    for (uint32_t k = layers; k-- > 0;) {
        const hn_wbuf next = add_buffer(f, HN_WBUF_TEMP, SMALL);
        add_call(f, x, saved[k], next, k);
        x = add_buffer(f, HN_WBUF_TEMP, SMALL);
        add_call(f, next, extra[k], x, k);
    }
}

TEST(what_only_the_backward_pass_reads_is_computed_there) {
    const hn_plan_options options = {HN_POOL_INTERMEDIATES};
    for (int is_device = 0; is_device < 2; is_device++) {
        fixture f;
        setup(&f, 0);
        add_layers(&f, 12);
        if (is_device) put_on_device(&f);
        EXPECT(planned(&f, options.pool) > 12 << 20);
        EXPECT_OK(hn_wrapper_order(f.w, &options));
        EXPECT_OK(hn_wrapper_verify(f.w));
        EXPECT(planned(&f, options.pool) < (1 << 20) + (128 << 10));
        teardown(&f);
    }
}

TEST(nothing_moves_when_the_limit_forbids_it) {
    const hn_plan_options options = {HN_POOL_INTERMEDIATES};
    fixture f;
    for (uint32_t most = 0; most < 2; most++) {
        hn_limit limit = {.most = most};
        setup(&f, 0);
        add_layers(&f, 12);
        const int64_t bytes = planned(&f, options.pool);
        f.w->limit = &limit;
        EXPECT_OK(hn_wrapper_order(f.w, &options));
        EXPECT_INT(limit.count, most);
        EXPECT((planned(&f, options.pool) < bytes) == (most > 0));
        teardown(&f);
    }
}

TEST(nothing_moves_without_a_gain) {
    const hn_plan_options options = {HN_POOL_INTERMEDIATES};
    hn_strbuf before, after;
    fixture f;
    setup(&f, 1);
    hn_wbuf previous = 0;
    for (uint32_t i = 0; i < 40; i++) {
        const hn_wbuf b = add_buffer(&f, HN_WBUF_TEMP, 1 << 20);
        add_call(&f, previous, 0, b, i);
        previous = b;
    }
    hn_strbuf_init(&before), hn_strbuf_init(&after);
    hn_wrapper_print(f.w, &before);
    EXPECT_OK(hn_wrapper_order(f.w, &options));
    hn_wrapper_print(f.w, &after);
    EXPECT_STR(after.ptr, before.ptr);
    hn_strbuf_deinit(&before), hn_strbuf_deinit(&after);
    teardown(&f);
}

TEST_MAIN
