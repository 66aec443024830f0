/* target.c: see target.h. */
#include "toolchain/target.h"

#include "toolchain/toolchain.h"

#include <stdlib.h>

static void print_known(hn_str known, hn_strbuf *out) {
    const char *item;
    while (hn_list_next(&known, &item)) hn_strbuf_printf(out, "%ssm_%s", out->len ? ", " : "", item);
    if (!out->len) hn_strbuf_puts(out, "those of its release");
}

static bool is_known(hn_str known, int number) {
    const char *item;
    if (!known.len) return true;
    while (hn_list_next(&known, &item))
        if (atoi(item) == number) return true;
    return false;
}

static hn_status refuse(hn_str known, const char *compiler, const char *version, const char *item) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    print_known(known, &text);
    hn_str list = hn_strbuf_str(&text);
    hn_status status =
        item ? HN_ERROR(HN_INVALID_ARGUMENT, "%s %s does not know architecture '%s'; it knows " HN_STR_FMT,
                        compiler, version, item, HN_STR_ARG(list))
             : HN_ERROR(HN_INVALID_ARGUMENT,
                        "cannot compile for no architecture: add 'sm_NN' (a cubin) or 'compute_NN' (PTX) to "
                        "the target; %s %s "
                        "knows " HN_STR_FMT,
                        compiler, version, HN_STR_ARG(list));
    hn_strbuf_deinit(&text);
    return status;
}

hn_status hn_gpu_target_read(hn_str target, hn_str known, const char *compiler, const char *version,
                             hn_gpu_target *out) {
    const char *item;
    *out = (hn_gpu_target){.count = 0};
    while (hn_list_next(&target, &item)) {
        hn_gpu_arch arch = {.name = item};
        int number;
        char suffix;
        if (strcmp(item, "host") == 0) {
            out->is_host = true;
            continue;
        }
        if (!hn_arch_parse(item, &arch.is_ptx, &number, &suffix))
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "'%s' is no GPU architecture: expected 'sm_90' (a cubin) or 'compute_90' (PTX)",
                            item);
        if (!is_known(known, number)) return refuse(known, compiler, version, item);
        if (out->count == HN_IMAGES_MAX)
            return HN_ERROR(HN_INVALID_ARGUMENT, "more than %d architectures in one job", HN_IMAGES_MAX);
        out->archs[out->count++] = arch;
    }
    return out->count ? NULL : refuse(known, compiler, version, NULL);
}
