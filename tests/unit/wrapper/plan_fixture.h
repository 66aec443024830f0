/* plan_fixture.h: random programs for tests of the memory planner. */
#ifndef HN_TESTS_UNIT_WRAPPER_PLAN_FIXTURE_H
#define HN_TESTS_UNIT_WRAPPER_PLAN_FIXTURE_H

#include "base/compiler.h"
#include "unit/wrapper/wrapper_fixture.h"

static hn_wbuf add_temp(fixture *f, hn_expr bytes) {
    hn_wbuf b = 0;
    EXPECT_OK(hn_wrapper_add_buffer(
        f->w, (hn_wbuffer){.kind = HN_WBUF_TEMP, .dtype = HN_DTYPE_U8, .bytes = bytes}, &b));
    return b;
}

static void add_call(fixture *f, hn_wbuf read, hn_wbuf read2, hn_wbuf write) {
    hn_woperand operands[3];
    uint32_t count = 0;
    if (read) operands[count++] = (hn_woperand){.buffer = read, .dtype = HN_DTYPE_U8};
    if (read2) operands[count++] = (hn_woperand){.buffer = read2, .dtype = HN_DTYPE_U8};
    if (write)
        operands[count++] = (hn_woperand){.buffer = write, .dtype = HN_DTYPE_U8, .written = true};
    EXPECT_OK(hn_wrapper_add_line(f->w, (hn_line){.kind = HN_LINE_KERNEL,
                                                  .kernel = f->kernel,
                                                  .operands = operands,
                                                  .operand_count = count,
                                                  .extent = hn_sym_int(f->sym, 1)}));
}

HN_UNUSED static int64_t as_int(fixture *f, hn_expr e) { return hn_sym_hint(f->sym, e, -1); }

static hn_expr random_bytes(fixture *f, const hn_expr *symbols, uint32_t symbol_count) {
    hn_expr size = hn_sym_int(f->sym, 1 + draw(f, 1u << draw(f, 20)));
    for (uint32_t k = 0; symbol_count && k < draw(f, 3); k++)
        size = hn_sym_mul(f->sym, size, symbols[draw(f, symbol_count)]);
    if (symbol_count && draw(f, 4) == 0)
        size = hn_sym_add(f->sym, size, symbols[draw(f, symbol_count)]);
    return size;
}

/* A chain in which each buffer is read some lines after it was written. */
static void random_program(fixture *f, uint32_t temps, const hn_expr *symbols,
                           uint32_t symbol_count, bool conds) {
    hn_wbuf recent[8] = {0};
    uint32_t open_at = 0, open_left = 0;
    if (conds) {
        f->flag = add_temp(f, hn_sym_int(f->sym, 1));
        f->w->buffers.items[f->flag].dtype = HN_DTYPE_BOOL;
        add_call(f, 0, 0, f->flag);
    }
    for (uint32_t i = 0; i < temps; i++) {
        hn_wbuf b = add_temp(f, random_bytes(f, symbols, symbol_count));
        if (conds && !open_left && draw(f, 6) == 0) {
            hn_woperand predicate = {.buffer = f->flag, .dtype = HN_DTYPE_BOOL};
            open_at = f->w->lines.count;
            open_left = 4;
            EXPECT_OK(hn_wrapper_add_line(
                f->w, (hn_line){.kind = HN_LINE_COND, .operands = &predicate, .operand_count = 1}));
        }
        if (open_left) { /* both bodies write b: two calls in each */
            uint32_t then_lines = 0;
            for (uint32_t body = 0; body < 2; body++) {
                hn_wbuf local = add_temp(f, random_bytes(f, symbols, symbol_count));
                add_call(f, recent[draw(f, 8)], 0, local);
                add_call(f, local, recent[draw(f, 8)], b);
                if (!body) then_lines = f->w->lines.count - open_at - 1;
            }
            f->w->lines.items[open_at].then_count = then_lines;
            f->w->lines.items[open_at].otherwise_count =
                f->w->lines.count - open_at - 1 - then_lines;
            open_left = 0;
        } else {
            add_call(f, recent[draw(f, 8)], recent[draw(f, 8)], b);
        }
        recent[draw(f, 8)] = b;
    }
}

#endif
