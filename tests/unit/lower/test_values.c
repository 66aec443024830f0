/* test_values.c: compiled programs against the interpreter where a wrong decision of the scheduler,
 * of lowering or of the planner of rows gives wrong numbers, and small random graphs seldom go. */
#include "lowering.h"
#include "support/imaginary_gpu.h"

/* A reduction down columns and a reader of another column: both cannot be lanes of one kernel. */
TEST(other_columns) {
    lowering_check_values(
        "input user %x : f32[64, 40] \"x\"\n%s = sum(%x, dims=[0], keepdim=false)\n"
        "%a = slice(%s, dim=0, start=0, size=39, step=1)\n%b = slice(%s, dim=0, start=1, size=39, step=1)\n"
        "%d = sub(%b, %a)\noutput user %d \"\"",
        0);
    lowering_check_values(
        "input user %x : f32[64, 40] \"x\"\n input user %i : f32[40] \"i\"\n%s = sum(%x, dims=[0], keepdim=false)\n"
        "%r = reshape(%s, sizes=[5, 8])\n%t = permute(%r, dims=[1, 0])\n%f = reshape(%t, sizes=[40])\n"
        "%d = add(%f, %i)\noutput user %d \"\"",
        0);
}

/* Long reductions fall into parts only where the parts cover everything. */
TEST(long_reductions_of_odd_lengths) {
    static const char *const lengths[] = {"131072", "131075", "200003", "262148", "131136"};
    for (size_t k = 0; k < HN_COUNT_OF(lengths); k++) {
        char text[512];
        snprintf(
            text, sizeof text,
            "input user %%x : f32[%s] \"x\"\n%%s = sum(%%x, dims=[0], keepdim=false)\n%%m = amax(%%x, dims=[0], keepdim=false)\n"
            "output user %%s \"\"\noutput user %%m \"\"",
            lengths[k]);
        lowering_check_values(text, 0);
    }
    lowering_check_values(
        "input user %x : f32[8195, 24] \"x\"\n%s = sum(%x, dims=[0], keepdim=false)\noutput user %s \"\"",
        0);
}

/* Two values of a row are kept from phase to phase side by side: neither reaches into the other. */
TEST(rows_that_are_kept) {
    for (int n = 15; n <= 33; n += 2) {
        char text[1024];
        snprintf(
            text, sizeof text,
            "input user %%x : f32[6, %d] \"x\"\n%%e = exp(%%x)\n%%s = sum(%%e, dims=[1], keepdim=true)\n%%d = div(%%e, %%s)\n"
            "%%f = exp(%%d)\n%%t = sum(%%f, dims=[1], keepdim=true)\n%%g = div(%%f, %%t)\n%%h = exp(%%g)\n"
            "%%u = sum(%%h, dims=[1], keepdim=true)\n%%v = div(%%h, %%u)\n%%a = add(%%v, %%e)\n%%y = add(%%a, %%f)\noutput user %%y \"\"",
            n);
        lowering_check_values(text, 1e-4);
    }
}

/* Largest numbers of 16 bits in small windows are no reduction; sums of them are, in f32. */
TEST(windows_of_16_bits) {
    static const char *const dtypes[] = {"bf16", "f16"}, *const ops[] = {"amax", "amin", "sum"};
    for (size_t k = 0; k < HN_COUNT_OF(dtypes) * HN_COUNT_OF(ops); k++) {
        char text[512];
        snprintf(text, sizeof text,
                 "input user %%x : %s[2, 3, 9, 10] \"x\"\n%%r = relu(%%x)\n"
                 "%%h = window(%%r, dim=2, count=4, size=3, step=2, dilation=1)\n"
                 "%%w = window(%%h, dim=3, count=4, size=3, step=2, dilation=1)\n"
                 "%%m = %s(%%w, dims=[4, 5], keepdim=false)\noutput user %%m \"\"",
                 dtypes[k % HN_COUNT_OF(dtypes)], ops[k / HN_COUNT_OF(dtypes)]);
        lowering_check_values(text, 0);
    }
}

/* The runtime's sort takes rows without gaps. */
TEST(sorting_what_has_gaps) {
    lowering_check_values(
        "input user %x : f32[40] \"x\"\n%g = slice(%x, dim=0, start=1, size=13, step=3)\n"
        "%v, %i = sort(%g, dim=0, descending=false, stable=true)\noutput user %v \"\"\noutput user %i \"\"",
        0);
    lowering_check_values(
        "input user %x : f32[6, 40] \"x\"\n%g = slice(%x, dim=1, start=2, size=9, step=4)\n"
        "%v, %i = sort(%g, dim=1, descending=true, stable=true)\noutput user %v \"\"\noutput user %i \"\"",
        0);
}

/* What an activation covers is still there when it is an output itself, and outputs keep their
 * layouts behind reshapes. */
TEST(outputs_inside_epilogues) {
    lowering_check_values(
        "input user %a : f32[6, 4] \"a\"\n input user %b : f32[4, 5] \"b\"\n%m = matmul(%a, %b, bias=none)\n%z = relu(%m)\n"
        "output user %m \"\"\noutput user %z \"\"",
        0);
    lowering_check_values(
        "input user %a : f32[6, 4] \"a\"\n input user %b : f32[4, 5] \"b\"\n%m = matmul(%a, %b, bias=none)\n"
        "%t = reshape(%m, sizes=[2, 3, 5])\n%z = relu(%t) : f32[2, 3, 5] strides [5, 10, 1]\noutput user %z \"\"",
        0);
}

/* A window that lies in the padding altogether has no nearest element: its maximum is that of the
 * padding. */
TEST(windows_that_meet_nothing) {
    static const char *const paddings[] = {"lo=[3], hi=[0]", "lo=[0], hi=[3]", "lo=[1], hi=[1]",
                                           "lo=[2], hi=[2]"},
                             *const counts[] = {"8", "8", "7", "9"};
    for (size_t k = 0; k < HN_COUNT_OF(paddings); k++) {
        char text[512];
        snprintf(
            text, sizeof text,
            "input user %%x : f32[6] \"x\"\n%%p = pad(%%x, value=-inf, %s)\n%%w = window(%%p, dim=0, count=%s, size=2, step=1, dilation=1)\n"
            "%%m = amax(%%w, dims=[1], keepdim=false)\noutput user %%m \"\"",
            paddings[k], counts[k]);
        lowering_check_values(text, 0);
    }
    lowering_check_values(
        "input user %x : f32[6] \"x\"\n%p = pad(%x, value=inf, lo=[0], hi=[5])\n%w = window(%p, dim=0, count=3, size=3, step=4, dilation=1)\n"
        "%m = amin(%w, dims=[1], keepdim=false)\noutput user %m \"\"",
        0);
}

/* A part of a mask lies where it lies in the whole: the count and the coordinates are of the
 * part. */
TEST(coordinates_of_a_part_of_a_mask) {
    lowering_check_values(
        "symbol data u0 in [0, 9]\ninput user %x : bool[20] \"x\"\n%s = slice(%x, dim=0, start=7, size=9, step=1)\n"
        "%n = nonzero(%s) : i64[u0, 1]\noutput user %n \"\"",
        0);
    lowering_check_values(
        "symbol data u0 in [0, 24]\ninput user %x : bool[7, 6] \"x\"\n%s = slice(%x, dim=0, start=3, size=4, step=1)\n"
        "%n = nonzero(%s) : i64[u0, 2]\noutput user %n \"\"",
        0);
}

/* Groups of rows of what has gaps, by ends that the data says; the sum behind is not taken into the
 * product. */
TEST(products_of_groups) {
    static const char *const operands[] = {
        "%a = slice(%x, dim=1, start=1, size=6, step=2)\n%b = slice(%w, dim=2, start=0, size=7, step=1)\n",
        "%y = slice(%x, dim=1, start=0, size=6, step=1)\n%a = add(%y, %y)\n%b = slice(%w, dim=2, start=1, size=7, step=1)\n",
        "%z = slice(%x, dim=0, start=0, size=6, step=1)\n%v = permute(%x, dims=[1, 0])\n%a = slice(%v, dim=1, start=5, size=6, step=1)\n"
        "%b = slice(%w, dim=2, start=1, size=7, step=1)\n",
    };
    static const int rows[] = {11, 11, 13};
    for (size_t k = 0; k < HN_COUNT_OF(operands); k++) {
        char text[1600];
        snprintf(
            text, sizeof text,
            "input user %%x : f32[11, 13] \"x\"\ninput user %%w : f32[5, 6, 8] \"w\"\ninput user %%e : f32[5] \"e\"\n%s"
            "%%i = cast(%%e, dtype=i64)\n%%p = abs(%%i)\n%%c = cumsum(%%p, dim=0)\n%%t = full(value=%d, sizes=[], dtype=i64)\n%%g = min(%%c, %%t)\n"
            "%%m = grouped_matmul(%%a, %%b, %%g)\n%%s = add(%%m, %%m)\n%%r = relu(%%s)\noutput user %%m \"\"\noutput user %%r \"\"",
            operands[k], rows[k]);
        lowering_check_values(text, 0);
    }
}

TEST(boxes_of_a_part) {
    lowering_check_values(
        "input user %x : f32[50, 6] \"x\"\n%b = slice(%x, dim=1, start=1, size=4, step=1)\n%k = nms(%b, threshold=0.25)\n"
        "%s = slice(%k, dim=0, start=1, size=24, step=2)\noutput user %k \"\"\noutput user %s \"\"",
        0);
    lowering_check_values(
        "input user %x : f32[50, 4] \"x\"\n%d = add(%x, %x)\n%k = nms(%d, threshold=0.0)\n%n = not(%k)\noutput user %n \"\"",
        0);
}

/* True is 1 in every type, also where the lanes of a mask hold -1, and also behind a sum. */
TEST(masks_as_numbers) {
    static const char *const dtypes[] = {"f16", "bf16", "f32", "f64", "i64",
                                         "i32", "i16",  "i8",  "u8"};
    for (size_t k = 0; k < HN_COUNT_OF(dtypes); k++) {
        char text[512];
        snprintf(
            text, sizeof text,
            "input user %%x : f32[77] \"x\"\ninput user %%y : f32[77] \"y\"\n%%m = lt(%%x, %%y)\n%%c = cast(%%m, dtype=%s)\n"
            "%%d = add(%%c, %%c)\noutput user %%c \"\"\noutput user %%d \"\"",
            dtypes[k]);
        lowering_check_values(text, 0);
    }
}

/* No loop reads before its memory at its first point, for sizes of 0. */
static void expect_reads_inside(lowering *t) {
    hn_sym *sym = t->program->sym;
    uint32_t loads = 0;
    for (hn_item i = 1; i < t->program->items.count; i++) {
        const hn_loop *loop = t->program->items.items[i].loop;
        if (t->program->items.items[i].kind != HN_ITEM_LOOP) continue;
        for (hn_sid k = 1; k < loop->body.count; k++) {
            const hn_sop *op = &loop->body.items[k];
            hn_expr zero = hn_sym_int(sym, 0), at = op->index, symbols[32];
            int64_t place = -1;
            if (op->kind != HN_SOP_LOAD) continue;
            const uint32_t count = hn_sym_symbols(sym, at, symbols, 32);
            for (uint32_t d = 0; d < count && d < 32; d++)
                at = hn_sym_subst(sym, at, &symbols[d], &zero, 1);
            EXPECT(hn_sym_is_int(sym, at, &place) && place >= 0);
            loads++;
        }
    }
    EXPECT(loads > 1);
}

/* Padding around nothing: no index is before the memory. */
TEST(convolution_of_a_size_that_may_be_0) {
    lowering t;
    hn_schedule ignored;
    if (lowering_parse(
            &t, "symbol size s0 in [0, 64]\n"
                "input user %x : f32[1, 2, s0] \"x\"\n input user %w : f32[3, 2, 3] \"w\"\n"
                "%y = conv(%x, %w, none, stride=[1], padding=[2], dilation=[1], transposed=false, "
                "output_padding=[0], groups=1)\noutput user %y \"\"")) {
        hn_sched_options options = {.threads = 1, .limits = &hn_test_gpu.limits};
        EXPECT_OK(hn_lower(t.graph, NULL, &t.arena, &t.scratch, &t.program));
        if (t.program)
            EXPECT_OK(hn_schedule_program(t.program, &options, &t.arena, &t.scratch, &ignored));
        if (t.program) expect_reads_inside(&t);
    }
    lowering_end(&t);
}

TEST_MAIN
