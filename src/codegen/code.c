/* code.c: printed kernels, see codegen.h. */
#include "codegen/codegen.h"

#include <string.h>

static const char placeholder[] = "KERNEL";

void hn_kernel_code_name(hn_kernel_code *code, hn_str text) {
    char hex[HN_DIGEST_HEX_BYTES];
    code->text = text;
    code->digest = hn_digest_of(text.ptr, text.len);
    hn_digest_hex(&code->digest, hex);
    snprintf(code->name, sizeof code->name, "k_%.16s", hex);
}

void hn_kernel_code_put(const hn_kernel_code *code, hn_strbuf *out) {
    const char *from = code->text.ptr;
    for (const char *at; (at = strstr(from, placeholder)); from = at + strlen(placeholder)) {
        hn_strbuf_append(out, from, (size_t)(at - from));
        hn_strbuf_puts(out, code->name);
    }
    hn_strbuf_puts(out, from);
}
