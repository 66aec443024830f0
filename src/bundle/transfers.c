/* transfers.c: how much a program for a device leaves to the host. */
#include "bundle/view.h"

#include "base/checked.h"

#include <stdlib.h>

static bool is_on_device(const hn_bundle *b, uint32_t buffer) {
    return b->buffers[buffer].device != HN_DEVICE_CPU;
}

static bool is_transfer(const hn_bundle *b, const hnb_step *s) {
    return s->kind == HNB_STEP_COPY && is_on_device(b, s->buffer) != is_on_device(b, s->from);
}

/* Symbols up to the first whose value nobody knows before a call. */
static uint32_t fill_hints(const hn_bundle *b, int64_t *symbols) {
    uint32_t count = 0;
    for (; count < b->symbols_count && b->symbols[count].hint != INT64_MIN; count++)
        symbols[count] = b->symbols[count].hint;
    return count;
}

/* What a step writes is a temporary or an output, which has a number of bytes. */
static int64_t sum_bytes(const hn_bundle *b, const int64_t *values, const uint8_t *bad) {
    int64_t sum = 0;
    for (uint32_t k = 0; k < b->steps_count; k++) {
        if (!is_transfer(b, &b->steps[k])) continue;
        const uint32_t bytes = b->buffers[b->steps[k].buffer].bytes;
        if (bad[bytes] || !hn_add_i64(sum, values[bytes], &sum)) return -1;
    }
    return sum;
}

static int64_t count_bytes(const hn_bundle *b) {
    int64_t *symbols = calloc((size_t)b->symbols_count + 1, sizeof *symbols);
    int64_t *values = calloc((size_t)b->nodes_count + 1, sizeof *values);
    uint8_t *bad = calloc((size_t)b->nodes_count + 1, 1);
    int64_t bytes = -1;
    if (symbols && values && bad) {
        hn_bundle_eval(b, symbols, fill_hints(b, symbols), values, bad);
        bytes = sum_bytes(b, values, bad);
    }
    free(symbols), free(values), free(bad);
    return bytes;
}

void hn_bundle_transfers_get(const hn_bundle *b, hn_bundle_transfers *out) {
    *out = (hn_bundle_transfers){0};
    for (uint32_t k = 1; k < b->buffers_count && !out->is_for_device; k++)
        out->is_for_device = is_on_device(b, k);
    if (!out->is_for_device) return;
    for (uint32_t k = 0; k < b->steps_count; k++) {
        out->host_steps +=
            b->steps[k].kind == HNB_STEP_EXTERN && b->steps[k].device == HN_DEVICE_CPU;
        out->copies += is_transfer(b, &b->steps[k]);
    }
    if (out->copies) out->bytes = count_bytes(b);
}
