/* plan_print.c: a memory plan as a picture (SVG), as JSON, and as comments of a text.
 *
 * The picture has a panel for each workspace and pool: offsets against lines of the program, a box
 * for each buffer from the line where its life begins to the one where it ends, the bytes that are
 * alive as a curve, and the largest sum of these, below which no plan can be, as a dashed line. */
#include "wrapper/plan_print.h"

#include "wrapper/names.h"
#include "wrapper/plan_list.h"

#include <inttypes.h>

enum {
    WIDTH = 1200,
    PANEL_HEIGHT = 420,
    LEFT = 90,
    TOP = 46,
    GAP = 70,
    LABEL_WIDTH = 60, /* boxes that have room for their name */
    LABEL_HEIGHT = 11
};

typedef struct panel {
    const char *kind; /* "workspace", "pool" or "input" */
    hn_device_kind device;
    hn_wbuf input;
    uint32_t space;
    int64_t bytes, bound;
} panel;

typedef struct plan_printer {
    const hn_wrapper *w;
    const hn_memory_plan *plan;
    hn_arena *arena;
    hn_strbuf *out;
    hn_plan_box *boxes; /* per buffer */
    int64_t *live;      /* per line, of the panel at hand */
    struct {
        panel *items;
        uint32_t count, cap;
    } panels;
    int64_t outputs_apart; /* bytes of outputs that have memory of their own */
} plan_printer;

/* ---- what there is ---- */

static int64_t hint(const plan_printer *p, hn_expr e) {
    const int64_t value = e ? hn_sym_hint(p->w->sym, e, 0) : 0;
    return value > 0 ? value : 0;
}

static hn_status find_boxes(plan_printer *p) {
    HN_NEW(p->arena, p->live, (size_t)p->w->lines.count + 2);
    HN_TRY(hn_memory_plan_boxes(p->w, p->plan, p->arena, &p->boxes));
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
        const hn_wbuffer *f = &p->w->buffers.items[b];
        if (f->kind == HN_WBUF_OUTPUT && !p->plan->pools[b] && p->boxes[b].is_used)
            p->outputs_apart += hint(p, f->bytes);
    }
    return NULL;
}

/* Bytes alive per line, aligned as in the plan. Of buffers that share memory, which have one place,
 * only the highest count. */
static int64_t find_live(plan_printer *p, uint32_t space) {
    int64_t most = 0;
    memset(p->live, 0, ((size_t)p->w->lines.count + 2) * sizeof *p->live);
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
        const hn_plan_box *x = &p->boxes[b];
        if (p->boxes[b].space != space || !x->bytes) continue;
        const int64_t bytes = (x->bytes + 63) / 64 * 64;
        p->live[x->first] += bytes, p->live[x->end + 1] -= bytes;
    }
    for (uint32_t i = 0; i < p->w->lines.count; i++) { /* a result in the place of an operand */
        const hn_line *line = &p->w->lines.items[i];
        if (line->kind != HN_LINE_REUSE || p->boxes[line->buffer].space != space ||
            p->boxes[line->from].space != space)
            continue;
        const hn_plan_box *from = &p->boxes[line->from], *to = &p->boxes[line->buffer];
        const int64_t bytes = (to->bytes < from->bytes ? to->bytes : from->bytes) + 63;
        if (from->end < to->first) continue;
        p->live[to->first] -= bytes / 64 * 64, p->live[from->end + 1] += bytes / 64 * 64;
    }
    for (uint32_t i = 0; i <= p->w->lines.count; i++) {
        if (i) p->live[i] += p->live[i - 1];
        if (p->live[i] > most) most = p->live[i];
    }
    return most;
}

static hn_status find_panels(plan_printer *p) {
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++) {
        panel x = {.kind = "workspace", .device = (hn_device_kind)d, .space = 1 + d};
        x.bytes = hint(p, p->plan->workspaces[d]);
        if (x.bytes) HN_PUSH(p->arena, &p->panels, x);
    }
    for (uint32_t k = 0; k < p->plan->pool_list.count; k++) {
        const hn_wpool *pool = &p->plan->pool_list.items[k];
        panel x = {.kind = pool->input ? "input" : "pool",
                   .device = pool->device,
                   .input = pool->input,
                   .space = HN_DEVICE_KIND_COUNT + k + 1,
                   .bytes = hint(p, pool->bytes)};
        HN_PUSH(p->arena, &p->panels, x);
    }
    for (uint32_t k = 0; k < p->panels.count; k++)
        p->panels.items[k].bound = find_live(p, p->panels.items[k].space);
    return NULL;
}

/* "pool 98304 bytes, lower bound 98304 bytes, ratio 1.0000" */
static void put_summary(const plan_printer *p) {
    const int64_t bytes = hn_memory_plan_bytes(p->w, p->plan);
    const int64_t bound = hint(p, p->plan->live_bound_bytes);
    hn_strbuf_printf(p->out, "pool %" PRId64 " bytes, lower bound %" PRId64 " bytes, ratio %.4f",
                     bytes, bound, bound ? (double)bytes / (double)bound : 1.0);
}

/* ---- SVG ---- */

static void put_text(hn_strbuf *out, hn_str text) {
    for (size_t i = 0; i < text.len; i++) {
        const char c = text.ptr[i];
        if (c == '<') hn_strbuf_puts(out, "&lt;");
        else if (c == '>') hn_strbuf_puts(out, "&gt;");
        else if (c == '&') hn_strbuf_puts(out, "&amp;");
        else if (c == '"') hn_strbuf_puts(out, "&quot;");
        else hn_strbuf_putc(out, (unsigned char)c < 0x20 ? ' ' : c);
    }
}

static double x_of(const plan_printer *p, uint32_t line) {
    return LEFT + (double)line * WIDTH / (double)(p->w->lines.count + 1);
}
static double y_of(const panel *x, double top, int64_t offset) {
    const int64_t most = x->bytes ? x->bytes : 1;
    return top + PANEL_HEIGHT * (1 - (double)offset / (double)most);
}

/* Neighbours in the program have other colours. */
static void put_box(const plan_printer *p, const panel *x, double top, const hn_plan_box *b) {
    const double left = x_of(p, b->first), right = x_of(p, b->end + 1);
    const double high = y_of(x, top, b->at + b->bytes), low = y_of(x, top, b->at);
    const hn_wbuf_kind kind = p->w->buffers.items[b->buffer].kind;
    const char *marks[HN_WBUF_KIND_COUNT] = {
        [HN_WBUF_OUTPUT] = " (output)", [HN_WBUF_WORKSPACE] = " (workspace)"};
    hn_strbuf_printf(p->out,
                     "<g><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                     "fill=\"hsl(%u,55%%,%u%%)\" stroke=\"#444\" stroke-width=\"0.3\"/><title>b%u ",
                     left, high, right - left, low - high, b->buffer * 47 % 360,
                     kind == HN_WBUF_OUTPUT      ? 60u
                     : kind == HN_WBUF_WORKSPACE ? 90u
                                                 : 78u,
                     b->buffer);
    put_text(p->out, b->node);
    hn_strbuf_printf(p->out, "%s: %" PRId64 " bytes at %" PRId64 ", lines %u to %u</title>",
                     marks[kind] ? marks[kind] : "", b->bytes, b->at, b->first, b->end);
    if (right - left >= LABEL_WIDTH && low - high >= LABEL_HEIGHT) {
        hn_strbuf_printf(p->out, "<text x=\"%.1f\" y=\"%.1f\">b%u ", left + 2, (high + low) / 2 + 3,
                         b->buffer);
        const size_t room = (size_t)((right - left) / 6);
        put_text(p->out, (hn_str){b->node.ptr, b->node.len < room ? b->node.len : room});
        hn_strbuf_puts(p->out, "</text>");
    }
    hn_strbuf_puts(p->out, "</g>\n");
}

static void put_curve(plan_printer *p, const panel *x, double top) {
    find_live(p, x->space);
    hn_strbuf_puts(p->out, "<path fill=\"none\" stroke=\"#000\" d=\"M");
    for (uint32_t i = 0; i <= p->w->lines.count; i++) {
        if (i && p->live[i] == p->live[i - 1]) continue;
        if (i) hn_strbuf_printf(p->out, " %.1f,%.1f", x_of(p, i), y_of(x, top, p->live[i - 1]));
        hn_strbuf_printf(p->out, " %.1f,%.1f", x_of(p, i), y_of(x, top, p->live[i]));
    }
    hn_strbuf_printf(p->out,
                     "\"/>\n<path stroke=\"#c00\" stroke-dasharray=\"6 4\" d=\"M%d,%.1f h%d\"/>\n",
                     LEFT, y_of(x, top, x->bound), WIDTH);
}

static void put_panel(plan_printer *p, const panel *x, double top) {
    hn_strbuf_printf(p->out, "<text x=\"%d\" y=\"%.1f\" font-size=\"13\">%s", LEFT, top - 8,
                     x->kind);
    if (x->input) hn_strbuf_puts(p->out, " "), put_text(p->out, p->boxes[x->input].node);
    else if (!x->input && x->space <= HN_DEVICE_KIND_COUNT)
        hn_strbuf_printf(p->out, " on %s", hn_device_name(x->device));
    hn_strbuf_printf(p->out,
                     ": %" PRId64 " bytes, alive at most %" PRId64
                     " (dashed); lines of the program to the right, offsets upwards</text>\n",
                     x->bytes, x->bound);
    hn_strbuf_printf(p->out,
                     "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"#fff\" "
                     "stroke=\"#000\"/>\n<text x=\"4\" y=\"%.1f\">%" PRId64
                     "</text><text x=\"4\" y=\"%.1f\">0</text>\n",
                     LEFT, top, WIDTH, PANEL_HEIGHT, top + 8, x->bytes, top + PANEL_HEIGHT);
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++)
        if (p->boxes[b].space == x->space && p->boxes[b].bytes) put_box(p, x, top, &p->boxes[b]);
    put_curve(p, x, top);
}

static void put_svg(plan_printer *p) {
    const uint32_t count = p->panels.count ? p->panels.count : 1;
    hn_strbuf_puts(p->out, "<!-- ");
    put_summary(p);
    hn_strbuf_printf(p->out,
                     " -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
                     "font-family=\"sans-serif\" font-size=\"9\">\n",
                     LEFT + WIDTH + 20, TOP + count * (PANEL_HEIGHT + GAP));
    for (uint32_t k = 0; k < p->panels.count; k++)
        put_panel(p, &p->panels.items[k], TOP + k * (PANEL_HEIGHT + GAP));
    hn_strbuf_puts(p->out, "</svg>\n");
}

/* ---- JSON ---- */

static void put_string(hn_strbuf *out, hn_str text) {
    hn_strbuf_putc(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x20) hn_strbuf_printf(out, "\\u%04x", c);
        else if (c == '"' || c == '\\') hn_strbuf_printf(out, "\\%c", c);
        else hn_strbuf_putc(out, (char)c);
    }
    hn_strbuf_putc(out, '"');
}

static void put_json_panel(const plan_printer *p, const panel *x) {
    hn_strbuf_printf(p->out, "{\"kind\": \"%s\", \"device\": \"%s\"", x->kind,
                     hn_device_name(x->device));
    if (x->input) hn_strbuf_printf(p->out, ", \"input\": %u", p->w->buffers.items[x->input].source);
    hn_strbuf_printf(p->out, ", \"bytes\": %" PRId64 ", \"lower_bound\": %" PRId64 "}", x->bytes,
                     x->bound);
}

/* Which panel a buffer lies in; -1: it has memory of its own. */
static int panel_of(const plan_printer *p, hn_wbuf b) {
    for (uint32_t k = 0; k < p->panels.count; k++)
        if (p->boxes[b].bytes && p->panels.items[k].space == p->boxes[b].space) return (int)k;
    return -1;
}

static void put_json_buffer(const plan_printer *p, hn_wbuf b) {
    const hn_wbuffer *f = &p->w->buffers.items[b];
    const hn_plan_box *x = &p->boxes[b];
    hn_strbuf_printf(p->out, "{\"buffer\": %u, \"kind\": \"%s\", \"name\": ", b,
                     hn_wbuf_kind_names[f->kind]);
    put_string(p->out, x->node);
    hn_strbuf_printf(p->out, ", \"bytes\": %" PRId64 ", \"first\": %u, \"last\": %u",
                     hint(p, f->bytes), x->first, x->end);
    if (panel_of(p, b) >= 0)
        hn_strbuf_printf(p->out, ", \"memory\": %d, \"offset\": %" PRId64, panel_of(p, b), x->at);
    hn_strbuf_putc(p->out, '}');
}

/* Whether the program makes the buffer, and uses it. */
static bool is_made(const plan_printer *p, hn_wbuf b) {
    const hn_wbuf_kind kind = p->w->buffers.items[b].kind;
    return (hn_wbuf_is_inner(kind) || kind == HN_WBUF_OUTPUT) && p->boxes[b].is_used;
}

static void put_json(const plan_printer *p) {
    const char *separator = "";
    hn_strbuf_puts(p->out, "{\"summary\": \"");
    put_summary(p);
    hn_strbuf_printf(p->out,
                     "\",\n\"bytes\": %" PRId64 ", \"lower_bound\": %" PRId64
                     ", \"output_bytes_apart\": %" PRId64 ", \"lines\": %u,\n\"memories\": [",
                     hn_memory_plan_bytes(p->w, p->plan), hint(p, p->plan->live_bound_bytes),
                     p->outputs_apart, p->w->lines.count);
    for (uint32_t k = 0; k < p->panels.count; k++, separator = ",\n ") {
        hn_strbuf_puts(p->out, separator);
        put_json_panel(p, &p->panels.items[k]);
    }
    hn_strbuf_puts(p->out, "],\n\"buffers\": [");
    separator = "";
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++) {
        if (!is_made(p, b)) continue;
        hn_strbuf_puts(p->out, separator);
        put_json_buffer(p, b);
        separator = ",\n ";
    }
    hn_strbuf_puts(p->out, "]}\n");
}

/* ---- comments ---- */

static void put_expr(const plan_printer *p, const char *before, hn_expr e, const char *after) {
    hn_strbuf_puts(p->out, before);
    hn_sym_print(p->w->sym, e, p->out);
    hn_strbuf_puts(p->out, after);
}

static void put_memories(const plan_printer *p) {
    for (uint32_t d = 0; d < HN_DEVICE_KIND_COUNT; d++) {
        if (!hint(p, p->plan->workspaces[d])) continue;
        hn_strbuf_printf(p->out, "# workspace on %s: ", hn_device_name((hn_device_kind)d));
        put_expr(p, "", p->plan->workspaces[d], " bytes\n");
    }
    for (uint32_t k = 0; k < p->plan->pool_list.count; k++) {
        const hn_wpool *pool = &p->plan->pool_list.items[k];
        hn_strbuf_printf(p->out, "# pool %u on %s", k + 1, hn_device_name(pool->device));
        if (pool->input) hn_strbuf_printf(p->out, ", the memory of b%u", pool->input);
        put_expr(p, ": ", pool->bytes, " bytes\n");
    }
}

static void put_place(const plan_printer *p, hn_wbuf b) {
    const hn_memory_plan *plan = p->plan;
    const bool is_placed = hn_wbuf_is_inner(p->w->buffers.items[b].kind) || plan->pools[b];
    hn_strbuf_printf(p->out, "# b%u: ", b);
    if (plan->slots[b]) hn_strbuf_printf(p->out, "slot %u", plan->slots[b]);
    else if (is_placed && plan->pools[b]) hn_strbuf_printf(p->out, "pool %u", plan->pools[b]);
    else hn_strbuf_puts(p->out, is_placed ? "workspace" : "memory of its own");
    if (is_placed && plan->offsets[b]) put_expr(p, " at ", plan->offsets[b], "");
    put_expr(p, ", ", p->w->buffers.items[b].bytes, " bytes");
    hn_strbuf_printf(p->out, ", lines %u to %u\n", p->boxes[b].first, p->boxes[b].end);
}

static void put_comments(const plan_printer *p) {
    hn_strbuf_puts(p->out, "# ");
    put_summary(p);
    hn_strbuf_putc(p->out, '\n');
    put_memories(p);
    for (hn_wbuf b = 1; b < p->w->buffers.count; b++)
        if (is_made(p, b)) put_place(p, b);
}

hn_status hn_memory_plan_print(const hn_wrapper *w, const hn_memory_plan *plan,
                               hn_memory_plan_form form, hn_strbuf *out) {
    hn_arena arena;
    hn_arena_init(&arena);
    plan_printer p = {.w = w, .plan = plan, .arena = &arena, .out = out};
    hn_status status = find_boxes(&p);
    if (!status) status = find_panels(&p);
    if (!status && form == HN_MEMORY_PLAN_SVG) put_svg(&p);
    if (!status && form == HN_MEMORY_PLAN_JSON) put_json(&p);
    if (!status && form == HN_MEMORY_PLAN_TEXT) put_comments(&p);
    hn_arena_deinit(&arena);
    return status ? status : hn_strbuf_status(out);
}
