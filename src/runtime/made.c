/* made.c: storages that are made of others: weights side by side, or in another layout. The file has
 * them as descriptions (hnb_piece), which were checked when it was opened. A device gets them in the
 * pieces that they are copied in (upload.c). The host makes what it reads itself when a module is
 * opened, and after an exchange of what they are made of. */
#include "runtime/module_impl.h"

#include <string.h>

static void read_file(const void *files, void *to, const void *from, size_t bytes) {
    const void *at = hn_ext_shared_read(files, from, bytes, to);
    if (at != to) memcpy(to, at, bytes);
}

/* Pieces do not overlap, so nothing is left when they have as many bytes as the storage. */
static bool has_gaps(const hn_bundle *b, uint32_t storage) {
    uint64_t left = b->storages[storage].bytes, from_end, to_end, bytes;
    for (uint64_t k = b->storages[storage].offset; hn_bundle_has_piece(b, storage, k); k++) {
        const hn_box box = hn_bundle_piece_box(b, &b->pieces[k]);
        if (hn_box_reach(&box, &from_end, &to_end, &bytes)) left -= bytes;
    }
    return left > 0;
}

static void write_part(const hn_module *m, const hn_weights *w, uint32_t storage, uint64_t begin,
                       size_t bytes, void *to) {
    const hn_bundle *b = &m->view;
    const hn_box_reader reader = {read_file, w->shared};
    if (has_gaps(b, storage)) memset(to, 0, bytes);
    for (uint64_t k = b->storages[storage].offset; hn_bundle_has_piece(b, storage, k); k++) {
        const hn_box box = hn_bundle_piece_box(b, &b->pieces[k]);
        hn_box_copy(&box, w->storages[b->pieces[k].source], begin, bytes, to, &reader);
    }
}

void hn_made_part_write(const void *part, size_t offset, size_t bytes, void *to) {
    const hn_made_part *p = part;
    write_part(p->m, p->weights, p->storage, p->offset + offset, bytes, to);
}

/* ---- on the host ---- */

/* Outputs of storages that nobody changes are copied from the host's memory. */
static bool is_output(const hn_bundle *b, uint32_t buffer) {
    for (uint32_t k = 0; k < b->outputs_count; k++)
        if (b->outputs[k].buffer == buffer) return true;
    return false;
}

static bool is_made_here(const hn_module *m, uint32_t buffer) {
    const hnb_buffer *f = &m->view.buffers[buffer];
    return f->kind == HNB_BUFFER_CONSTANT &&
           m->view.storages[f->source].where == HNB_STORAGE_MADE &&
           (!hn_buffer_is_remote(m, buffer) || is_output(&m->view, buffer));
}

hn_status hn_made_fill(const hn_module *m, hn_weights *w) {
    for (uint32_t k = 1; k < m->view.buffers_count; k++) {
        const uint32_t storage = m->view.buffers[k].source;
        if (!is_made_here(m, k) || w->storages[storage]) continue;
        HN_TRY(hn_weights_own_storage(m, w, storage));
        write_part(m, w, storage, 0, m->view.storages[storage].bytes, w->storages[storage]);
    }
    return NULL;
}

/* ---- exchange ---- */

void hn_made_touch(const hn_module *m, uint32_t *touched) {
    const hn_bundle *b = &m->view;
    for (uint32_t k = 0; k < b->pieces_count; k++)
        if (touched[b->pieces[k].source]) touched[b->pieces[k].storage] = 1;
}
