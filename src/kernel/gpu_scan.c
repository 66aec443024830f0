/* gpu_scan.c: scans by the threads of a row.
 *
 * Along the row in memory the threads take it vector after vector, each in turn. Where neighbours
 * have neighbouring rows a thread takes `unroll` elements that follow one another down its row, so
 * that the threads before it have what comes before: one exchange for all of them. */
#include "kernel/gpu_vectors.h"

bool hn_gpu_scans_along(const hn_gpu_planner *pl) {
    for (uint32_t f = 0; f < pl->k->phases.count; f++) {
        const hn_kernel_phase *phase = &pl->k->phases.items[f];
        if (!phase->scan || !phase->rank) continue;
        for (hn_sid s = 1; s < phase->body.count; s++)
            if (phase->body.items[s].kind == HN_SOP_LOAD &&
                hn_gpu_is_contiguous(pl, phase->body.items[s].index, phase->vars[phase->rank - 1]))
                return true;
    }
    return false;
}

/* Where the row and the vector are there: what is done with the vector of loop `u`, or with all of
 * the thread's elements. */
static hn_gpu_vec open_scanned(hn_gpu_planner *pl, const hn_gpu_vec *u,
                               void (*open_row)(hn_gpu_planner *pl)) {
    hn_gpu_vec v = {.run = u->run, .u = u->u};
    open_row(pl);
    if (pl->is_across) v = hn_gpu_begin_unrolled(pl, u->run);
    v.open++;
    hn_gpu_begin_vector(pl, &v);
    hn_gpu_emit_shared_ops(pl);
    return v;
}

/* A vector, or all elements of a thread: what the thread has of it, what the threads before have, and then the results. */
static void emit_scanned(hn_gpu_planner *pl, const hn_gpu_vec *u, hn_freg all, hn_gpu_reads which,
                         void (*open_row)(hn_gpu_planner *pl)) {
    const hn_freg reg = pl->registers[pl->phase->reduces.items[0].slot];
    hn_form_init(pl->f, reg);
    hn_gpu_vec v = open_scanned(pl, u, open_row);
    hn_gpu_emit_reads(pl, &v, which);
    hn_gpu_open_elements(pl, &v);
    hn_gpu_emit_ops(pl, &v, false);
    hn_gpu_emit_steps(pl);
    hn_gpu_close_elements(pl);
    hn_gpu_end_vectors(pl, &v);
    hn_form_before(pl->f, reg, all, pl->layout->width, hn_gpu_pitch(pl, pl->layout->rows));
    v = open_scanned(pl, u, open_row);
    hn_gpu_open_elements(pl, &v);
    hn_gpu_emit_ops(pl, &v, false);
    hn_gpu_emit_steps(pl);
    hn_gpu_emit_ops(pl, &v, true);
    hn_gpu_emit_stores(pl, &v);
    hn_gpu_close_elements(pl);
    hn_gpu_emit_writes(pl, &v);
    hn_gpu_end_vectors(pl, &v);
}

void hn_gpu_emit_scan_step(hn_gpu_planner *pl, const hn_gpu_run *run, hn_freg all,
                           void (*open_row)(hn_gpu_planner *pl)) {
    hn_gpu_mark_varying(pl, run->last);
    hn_gpu_list_arrays(pl, run);
    const bool apart = pl->layout->unroll > 1 && hn_gpu_any_missing(pl);
    if (apart) {
        open_row(pl);
        hn_gpu_emit_memory_reads(pl, run);
        hn_form_close(pl->f);
    }
    hn_gpu_vec u = {.run = run};
    if (!pl->is_across) u = hn_gpu_begin_unrolled(pl, run);
    emit_scanned(pl, &u, all, apart ? HN_GPU_READS_CACHE : HN_GPU_READS_ALL, open_row);
    hn_gpu_end_vectors(pl, &u);
}
