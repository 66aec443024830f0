/* stats_text.c: the text of tensor_stats.cu with the numbers in front that it shares with the
 * launches. */
#include "runtime/stats_text.h"

#include "base/compiler.h"
#include "runtime/device/device.h"

__asm__(".pushsection .rodata\n.hidden hn_tensor_stats_text\n.globl hn_tensor_stats_text\n"
        "hn_tensor_stats_text:\n.incbin \"" HN_TENSOR_STATS_TEXT "\"\n.byte 0\n.popsection\n");
extern const char hn_tensor_stats_text[];

void hn_stats_text(hn_strbuf *out) {
    static const struct {
        const char *name;
        int number;
    } words[] = {{"F64", HN_F64},
                 {"F32", HN_F32},
                 {"F16", HN_F16},
                 {"BF16", HN_BF16},
                 {"I64", HN_I64},
                 {"I32", HN_I32},
                 {"I16", HN_I16},
                 {"I8", HN_I8},
                 {"BOOL", HN_BOOL},
                 {"THREADS", HN_STATS_THREADS},
                 {"BATCH", HN_STATS_BATCH_ELEMS},
                 {"RANK", HN_STATS_RANK}};
    for (size_t k = 0; k < HN_COUNT_OF(words); k++)
        hn_strbuf_printf(out, "#define %s %d\n", words[k].name, words[k].number);
    hn_strbuf_puts(out, hn_tensor_stats_text);
}

void hn_stats_text_of(hn_device_kind kind, hn_strbuf *out) {
    hn_strbuf_puts(out, hn_device_ops_of(kind)->text_words);
    hn_stats_text(out);
}
