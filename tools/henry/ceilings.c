/* ceilings.c: `henry bench --roofline`: what the machine can do at most. */
#include "tool.h"

#include "base/device.h"
#include "measure/ceilings.h"

#include <time.h>

struct hn_ceilings_options tool_ceilings_options(const tool_options *options) {
    return (hn_ceilings_options){.threads = options->threads > 0 ? (int)options->threads : 0,
                                 .cache_dir = options->cache_dir,
                                 .no_cache = options->no_cache,
                                 .anew = options->measure};
}

hn_status tool_ceilings_get(const tool_options *options, hn_device device,
                            struct hn_ceilings *out) {
    hn_ceilings_options wanted = tool_ceilings_options(options);
    wanted.device = device;
    return hn_ceilings_get(&wanted, out, NULL);
}

/* Less of the processors' time than this, and the figures are too low. */
#define ENOUGH_SHARE 0.8

static void print_date(int64_t seconds, hn_strbuf *out) {
    char text[32] = "";
    const time_t at = (time_t)seconds;
    struct tm parts;
    if (gmtime_r(&at, &parts)) (void)strftime(text, sizeof text, "%Y-%m-%d", &parts);
    hn_strbuf_puts(out, text);
}

static const char *const math_names[HN_CEILING_MATH_COUNT] = {
    [HN_CEILING_ADD] = "additions",
    [HN_CEILING_PRODUCTS] = "products_f32",
    [HN_CEILING_PRODUCTS_HALF] = "products_16_bits",
    [HN_CEILING_PRODUCTS_F64] = "products_f64"};

void tool_ceilings_print(const struct hn_ceilings *c, hn_strbuf *out) {
    hn_strbuf_printf(out, "%s (%s", c->name, hn_device_name(c->device.kind));
    if (c->device.kind != HN_DEVICE_CPU) hn_strbuf_printf(out, ":%u", c->device.number);
    if (c->threads) hn_strbuf_printf(out, ", %d thread%s", c->threads, c->threads == 1 ? "" : "s");
    hn_strbuf_puts(out, "), measured ");
    print_date(c->measured_s, out);
    hn_strbuf_printf(out, "\n%10s %10s %10s %10s  GB/s\n", "read", "copy", "fill", "KiB");
    for (uint32_t k = 0; k < c->level_count; k++) {
        const hn_ceiling_level *l = &c->levels[k];
        hn_strbuf_printf(out, "%10.1f %10.1f %10.1f ", l->read, l->copy, l->fill);
        if (l->bytes == INT64_MAX) hn_strbuf_printf(out, "%10s", "");
        else hn_strbuf_printf(out, "%10lld", (long long)l->bytes / 1024);
        hn_strbuf_printf(out, "  %s\n", l->name);
    }
    for (int k = 0; k < HN_CEILING_MATH_COUNT; k++)
        if (c->math[k] > 0)
            hn_strbuf_printf(out, "%10.1f  10^9 operations a second: %s\n", c->math[k],
                             math_names[k]);
    if (c->own_share < ENOUGH_SHARE)
        hn_strbuf_printf(out,
                         "Other work had %.0f %% of the processors meanwhile: these are too low. "
                         "--measure measures again.\n",
                         100 * (1 - c->own_share));
}

void tool_ceilings_json(tool_json *json, const struct hn_ceilings *c) {
    tool_json_open(json, NULL, '{');
    tool_json_str(json, "device", hn_device_name(c->device.kind));
    tool_json_int(json, "number", c->device.number);
    tool_json_str(json, "name", c->name);
    tool_json_int(json, "threads", c->threads);
    tool_json_int(json, "measured_at", c->measured_s);
    tool_json_num(json, "own_share", c->own_share);
    tool_json_open(json, "levels", '[');
    for (uint32_t k = 0; k < c->level_count; k++) {
        const hn_ceiling_level *l = &c->levels[k];
        tool_json_open(json, NULL, '{');
        tool_json_str(json, "name", l->name);
        if (l->bytes == INT64_MAX) tool_json_str(json, "bytes", NULL);
        else tool_json_int(json, "bytes", l->bytes);
        tool_json_num(json, "read_gb_s", l->read);
        tool_json_num(json, "copy_gb_s", l->copy);
        tool_json_num(json, "fill_gb_s", l->fill);
        tool_json_close(json);
    }
    tool_json_close(json);
    tool_json_open(json, "giga_operations_per_s", '{');
    for (int k = 0; k < HN_CEILING_MATH_COUNT; k++) tool_json_num(json, math_names[k], c->math[k]);
    tool_json_close(json);
    tool_json_close(json);
}
