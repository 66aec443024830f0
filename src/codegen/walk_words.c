/* walk_words.c: templates, names, index expressions and literals. */
#include "codegen/walk_internal.h"

#include <math.h>
#include <string.h>

void walk_fail(walk *w, hn_status status) {
    if (w->failed) hn_status_free(status);
    else w->failed = status;
}

static void keep(walk *w, hn_status status) {
    if (status) walk_fail(w, status);
}

/* ---- dtypes ---- */

hn_number_class walk_class(hn_dtype d) {
    switch (d) {
    case HN_DTYPE_F64: return HN_NUMBER_F64;
    case HN_DTYPE_F32:
    case HN_DTYPE_F16:
    case HN_DTYPE_BF16: return HN_NUMBER_F32;
    case HN_DTYPE_I64: return HN_NUMBER_I64;
    case HN_DTYPE_BOOL: return HN_NUMBER_BOOL;
    default: return HN_NUMBER_I32;
    }
}

/* ---- templates ---- */

void walk_begin_line(walk *w) {
    for (uint32_t k = 0; k < w->depth; k++) hn_strbuf_puts(&w->out, "  ");
}

static void put_operand(walk *w, const operand *o) {
    if (!o->index) {
        hn_strbuf_puts(&w->out, o->text ? o->text : "");
        return;
    }
    const char *before = w->lane;
    w->lane = o->lane;
    walk_put_index(w, o->index);
    w->lane = before;
}

void walk_put(walk *w, const char *text, hn_dtype dtype, const operand operands[OPERANDS_MAX]) {
    for (const char *c = text; *c; c++) {
        size_t plain = strcspn(c, dtype ? "$#@" : "$");
        hn_strbuf_append(&w->out, c, plain);
        c += plain;
        if (!*c) return;
        if (*c == '$') put_operand(w, &operands[*++c - '0']);
        else if (*c == '#') hn_strbuf_putc(&w->out, "fdilm"[walk_class(dtype)]);
        else hn_strbuf_puts(&w->out, hn_dtype_facts(dtype)->name);
    }
}

void walk_put_line(walk *w, const char *text, hn_dtype dtype,
                   const operand operands[OPERANDS_MAX]) {
    walk_begin_line(w);
    walk_put(w, text, dtype, operands);
    hn_strbuf_putc(&w->out, '\n');
}

const char *walk_open(walk *w, const char *text, hn_dtype dtype) {
    const char *at = text ? strstr(text, "$0") : NULL;
    if (!at) return "";
    for (const char *c = text; c < at; c++) {
        if (*c == '#' && dtype) hn_strbuf_putc(&w->out, "fdilm"[walk_class(dtype)]);
        else if (*c == '@' && dtype) hn_strbuf_puts(&w->out, hn_dtype_facts(dtype)->name);
        else hn_strbuf_putc(&w->out, *c);
    }
    return at + 2;
}

/* ---- names ---- */

/* Names are most of a text: printf would take as long as all else. Returns where the text ends. */
static char *write_number(char *at, uint32_t number) {
    char digits[10];
    uint32_t count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count) *at++ = digits[--count];
    *at = '\0';
    return at;
}

name walk_name(char letter, uint32_t number) {
    name n;
    n.text[0] = letter;
    write_number(n.text + 1, number);
    return n;
}

name walk_number(uint32_t number) {
    name n;
    write_number(n.text, number);
    return n;
}

name walk_memory(hn_fmem m) { return walk_name('m', m - 1); }

static name of_vector(const walk *w, char letter, hn_freg r, uint32_t copy) {
    name n;
    n.text[0] = letter;
    char *end = write_number(n.text + 1, r - 1);
    if (w->vectors && w->vectors[r] > 1) {
        *end = '_';
        write_number(end + 1, copy);
    }
    return n;
}

name walk_register(const walk *w, hn_freg r, uint32_t copy) { return of_vector(w, 'r', r, copy); }
name walk_position(const walk *w, hn_freg r, uint32_t copy) { return of_vector(w, 'p', r, copy); }
name walk_value(const walk *w, hn_fid value) { return walk_name('v', w->values[value]); }

/* ---- index expressions ---- */

static hn_status find_size(const walk *w, hn_expr symbol, uint32_t *out) {
    const hn_form_sizes *sizes = &w->f->sizes;
    for (*out = 0; *out < sizes->count; ++*out)
        if (sizes->items[*out] == symbol) return NULL;
    return HN_ERROR(HN_INTERNAL, "a form uses a size that it does not list");
}

static const defined *find_defined(const walk *w, hn_expr symbol) {
    for (uint32_t k = w->defined.count; k-- > 0;)
        if (w->defined.items[k].symbol == symbol) return &w->defined.items[k];
    return NULL;
}

static void put_defined(const walk *w, const defined *d, hn_strbuf *out) {
    const char *lane = w->lane ? w->lane : "0";
    bool is_number = d->form == SYMBOL_NUMBER || (d->form == SYMBOL_LANES && !w->lane);
    if (is_number) hn_strbuf_puts(out, walk_name('i', d->number).text);
    else if (d->form == SYMBOL_LANES) hn_strbuf_printf(out, "(i%u + %s)", d->number, lane);
    else if (d->form == SYMBOL_ARRAY) hn_strbuf_printf(out, "i%u[%s]", d->number, lane);
    else hn_strbuf_printf(out, "(%s)i%u[%s]", walk_index_type(w), d->number, lane);
}

/* Those that the form has from the beginning. */
static const char *word_of(const walk *w, hn_expr symbol) {
    const hn_form *f = w->f;
    return symbol == f->group    ? "group"
           : symbol == f->thread ? "thread"
           : symbol == f->first  ? "first"
           : symbol == f->until  ? "until"
                                 : NULL;
}

static void put_symbol(void *user, hn_expr symbol, hn_strbuf *out) {
    walk *w = user;
    hn_symbol_kind kind = hn_sym_symbol_kind(w->f->sym, symbol);
    const defined *d = find_defined(w, symbol);
    const char *word = word_of(w, symbol);
    uint32_t number = 0;
    if (word) {
        hn_strbuf_puts(out, word);
    } else if (d) {
        put_defined(w, d, out);
    } else if (kind == HN_SYMBOL_INDEX || kind == HN_SYMBOL_INDIRECT) {
        walk_fail(w, HN_ERROR(HN_INTERNAL, "a form uses an index that nothing defines"));
    } else {
        keep(w, find_size(w, symbol, &number));
        hn_strbuf_puts(out, walk_name('n', number).text);
    }
}

void walk_put_index(walk *w, hn_expr e) {
    keep(w, hn_index_put(&(hn_index_printer){w->f->sym, &w->l->index_words, put_symbol, w}, e,
                         &w->out));
}

const char *walk_index_text(walk *w, hn_expr e) {
    hn_strbuf text = w->out;
    hn_strbuf_init(&w->out);
    walk_put_index(w, e);
    hn_str own = hn_strbuf_str(&w->out);
    const char *copy = w->out.failed ? NULL : hn_arena_strndup(w->scratch, own.ptr, own.len);
    hn_strbuf_deinit(&w->out);
    w->out = text;
    if (!copy) walk_fail(w, HN_ERROR(HN_OUT_OF_MEMORY, "out of memory while printing a kernel"));
    return copy ? copy : "";
}

static hn_status push_defined(walk *w, defined d) {
    HN_PUSH(w->scratch, &w->defined, d);
    return NULL;
}

name walk_define(walk *w, hn_expr symbol, symbol_form form) {
    uint32_t number = w->index_count++;
    keep(w, push_defined(w, (defined){symbol, number, form}));
    return walk_name('i', number);
}

/* ---- literals ---- */

/* Opens the text of a number in all lanes, where there are lanes. */
static const char *open_splat(walk *w, hn_dtype dtype) {
    return walk_open(w, w->l->vectors ? w->l->vectors->splat.of[walk_class(dtype)] : NULL, dtype);
}

void walk_put_int(walk *w, hn_dtype dtype, int64_t value) {
    hn_number_class c = walk_class(dtype);
    const char *suffix = c == HN_NUMBER_I64 ? w->l->long_suffix : "", *rest = open_splat(w, dtype);
    bool least =
        value == (c == HN_NUMBER_I64 ? INT64_MIN : INT32_MIN); /* there are no negative literals */
    if (c == HN_NUMBER_BOOL && value && w->l->vectors)
        hn_strbuf_puts(&w->out, w->l->vectors->true_number);
    else if (c == HN_NUMBER_BOOL) hn_strbuf_puts(&w->out, value ? "1" : "0");
    else if (least) hn_strbuf_printf(&w->out, "(%lld%s - 1)", (long long)value + 1, suffix);
    else hn_strbuf_printf(&w->out, "%lld%s", (long long)value, suffix);
    hn_strbuf_puts(&w->out, rest);
}

/* In hexadecimal: exact. */
void walk_put_float(walk *w, hn_dtype dtype, double value) {
    hn_number_class c = walk_class(dtype);
    bool single = c == HN_NUMBER_F32;
    const char *rest = open_splat(w, dtype);
    if (isnan(value)) hn_strbuf_puts(&w->out, w->l->nan.of[c]);
    else if (isinf(value) || (single && isinf((float)value)))
        hn_strbuf_printf(&w->out, "%s%s", value < 0 ? "-" : "", w->l->infinity.of[c]);
    else
        hn_strbuf_printf(&w->out, "%a%s", single ? (double)(float)value : value,
                         single ? w->l->float_suffix : "");
    hn_strbuf_puts(&w->out, rest);
}
