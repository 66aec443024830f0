/* print_prefetch.c: prefetches. */
#include "codegen/c/internal.h"

/* f<s>: the index of a row ahead, for each t<s> that is one number for the row. */
void c_put_indices_ahead(printer *pr) {
    for (uint32_t k = 0; k < pr->at->indices_ahead.count; k++) {
        const hn_cpu_index_ahead *from = &pr->at->indices_ahead.items[k];
        c_put_begin(pr);
        hn_strbuf_printf(&pr->out, "const ll f%u = bounded(", from->op);
        c_put_base(pr, from->buffer, from->access);
        hn_strbuf_putc(&pr->out, '[');
        c_put_element(pr, from->buffer, from->access, from->index);
        hn_strbuf_puts(&pr->out, "], ");
        c_put_index(pr, hn_sym_symbol_extent(pr->sym, pr->at->phase->body.items[from->op].index));
        hn_strbuf_puts(&pr->out, ");\n");
    }
}

/* Those of one vector. */
void c_put_prefetches(printer *pr) {
    for (uint32_t k = 0; k < pr->at->prefetch_count; k++) {
        const hn_cpu_prefetch *request = &pr->at->prefetches[k];
        if (pr->copy % request->every) continue;
        for (uint32_t line = 0; line < request->lines; line++) {
            c_put_begin(pr);
            hn_strbuf_puts(&pr->out, "__builtin_prefetch(");
            c_put_base(pr, request->buffer, request->access);
            hn_strbuf_puts(&pr->out, " + ");
            pr->ahead = true;
            c_put_element(pr, request->buffer, request->access, request->index);
            pr->ahead = false;
            if (line) hn_strbuf_printf(&pr->out, " + %u", line * request->line_elems);
            hn_strbuf_puts(&pr->out, request->to_write ? ", 1);\n" : ");\n");
        }
    }
}
