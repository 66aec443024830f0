/* cuda_stage.c: pinned memory between the host's and the device's. The driver copies from and to
 * memory that may be paged out only while the host waits; so what the host has is copied to pinned
 * memory first, and what comes from the device lands there until the queue is finished. Memory of
 * the caller's that is pinned needs none of it. */
#include "runtime/device/cuda.h"

#include "base/checked.h"
#include "base/log.h"
#include "base/pages.h"
#include "base/trace.h"

#include <stdlib.h>

enum {
    PIECE_LEAST = 64 << 10, /* bytes */
    PIECE_MOST = 8 << 20,
    SHARE_LEAST = 256 << 10, /* of a copy of the host, for one thread */
    SHARES_MOST = 8,         /* some threads use all of the memory's bandwidth */
    LANDING_LEAST = 64 << 10,
    LANDING_MOST = 64 << 20 /* more is waited for */
};

/* Whether a copy straight from or to the caller's memory was refused: of memory that is pinned at
 * both ends, but not all between, the driver says so. */
static bool is_refusal(hn_cuda_result code) { return code == HN_CUDA_INVALID_VALUE; }

static cuda_dev *dev_of(cuda_queue *q) { return (cuda_dev *)q->base.dev; }

/* Memory that CUDA does not know has the kind 0. */
static bool is_pinned_at(cuda_queue *q, const uint8_t *host) {
    unsigned kind = 0;
    int attribute = HN_CUDA_POINTER_MEMORY_TYPE;
    void *out = &kind;
    return dev_of(q)->cuda.cuPointerGetAttributes(1, &attribute, &out, hn_cuda_at(host)) ==
               HN_CUDA_SUCCESS &&
           kind == HN_CUDA_MEMORY_HOST;
}

/* At both ends, which may be two pieces of pinned memory with other memory between. */
static bool is_pinned(cuda_queue *q, const void *host, size_t bytes) {
    const uint8_t *at = host;
    return is_pinned_at(q, at) && is_pinned_at(q, at + bytes - 1);
}

/* ---- pinned memory ---- */

/* The driver makes pages one by one, and takes 0.5 ms for a MiB. Several threads make them faster, and
 * then it has to pin them only. */
enum { MAP_LEAST = 4 << 20, MAKE_LEAST = 1 << 20 }; /* bytes; for one thread */

typedef struct page_make {
    uint8_t *at;
    size_t bytes, share;
} page_make;

static void make_share(void *context, int rank) {
    const page_make *m = context;
    const size_t begin = (size_t)rank * m->share;
    if (begin >= m->bytes) return;
    const size_t left = m->bytes - begin;
    hn_pages_make(m->at + begin, left < m->share ? left : m->share);
}

static void pin_map(cuda_queue *q, size_t bytes, cuda_pinned *out) {
    size_t shares = bytes / MAKE_LEAST;
    if (shares > (size_t)q->threads) shares = (size_t)q->threads;
    if (shares > SHARES_MOST) shares = SHARES_MOST;
    page_make make = {hn_pages_map(bytes), bytes, hn_align_up(bytes / shares, MAKE_LEAST)};
    if (!make.at) return;
    hn_team_run(q->team, (int)shares, make_share, &make);
    if (dev_of(q)->cuda.cuMemHostRegister(make.at, bytes, 0) == HN_CUDA_SUCCESS)
        *out = (cuda_pinned){make.at, bytes};
    else hn_pages_unmap(make.at, bytes);
}

static hn_status pin_now(cuda_queue *q, size_t bytes, cuda_pinned *out) {
    void *memory = NULL;
    *out = (cuda_pinned){.at = NULL};
    if (bytes >= MAP_LEAST) pin_map(q, bytes, out);
    if (out->at) return NULL;
    HN_TRY(hn_cuda_check(dev_of(q), dev_of(q)->cuda.cuMemHostAlloc(&memory, bytes, 0),
                         "cuMemHostAlloc"));
    out->at = memory;
    return NULL;
}

static hn_status pin(cuda_queue *q, size_t bytes, cuda_pinned *out) {
    const int64_t begin = hn_now_ns();
    hn_status status = pin_now(q, bytes, out);
    q->stage.times.pin_ns += hn_now_ns() - begin;
    return status;
}

static void unpin(cuda_queue *q, cuda_pinned *p) {
    if (p->at && !p->mapped) (void)dev_of(q)->cuda.cuMemFreeHost(p->at);
    if (p->mapped) {
        (void)dev_of(q)->cuda.cuMemHostUnregister(p->at);
        hn_pages_unmap(p->at, p->mapped);
    }
    *p = (cuda_pinned){.at = NULL};
}

static size_t power_of_two(size_t bytes, size_t least, size_t most) {
    size_t power = least;
    while (power < bytes && power < most) power *= 2;
    return power;
}

static hn_status wait_for_queue(cuda_queue *q) {
    return hn_cuda_check(dev_of(q), dev_of(q)->cuda.cuStreamSynchronize(q->stream),
                         "cuStreamSynchronize");
}

/* ---- copies of the host: faster than the link to the device only with several threads ---- */

typedef struct host_copy {
    const hn_device_maker *maker;
    uint8_t *to;
    size_t from; /* of what the maker has */
    size_t bytes, share;
} host_copy;

/* What a maker's functions read: memory of the host. */
typedef struct host_bytes {
    const hn_ext_shared *files;
    const uint8_t *at;
} host_bytes;

/* What is mapped from a file is read: a page of a map costs a fault, and a page of the page cache
 * does not. */
static void copy_bytes(const void *user, size_t offset, size_t bytes, void *to) {
    const host_bytes *from = user;
    const void *at = from->at + offset;
    if (from->files) at = hn_ext_shared_read(from->files, at, bytes, to);
    if (at != to) memcpy(to, at, bytes);
}

static void copy_share(void *context, int rank) {
    const host_copy *c = context;
    const size_t begin = (size_t)rank * c->share;
    if (begin >= c->bytes) return; /* shares are rounded up */
    const size_t left = c->bytes - begin;
    c->maker->make(c->maker->user, c->from + begin, left < c->share ? left : c->share,
                   c->to + begin);
}

static void make_on_host(cuda_queue *q, void *to, const hn_device_maker *maker, size_t from,
                         size_t bytes) {
    size_t shares = bytes / SHARE_LEAST;
    if (shares > (size_t)q->threads) shares = (size_t)q->threads;
    if (shares > SHARES_MOST) shares = SHARES_MOST;
    if (shares < 1) shares = 1;
    host_copy copy = {maker, to, from, bytes, (bytes / shares + 63) / 64 * 64};
    if (shares == 1) maker->make(maker->user, from, bytes, to);
    else hn_team_run(q->team, (int)shares, copy_share, &copy);
}

static void copy_on_host(cuda_queue *q, void *to, const void *from, size_t bytes) {
    const host_bytes source = {q->files, from};
    make_on_host(q, to, &(hn_device_maker){copy_bytes, &source}, 0, bytes);
}

/* ---- to the device ---- */

static void reset_pieces(cuda_stage *s) {
    for (uint32_t k = 0; k < HN_CUDA_STAGE_PIECES; k++)
        s->pieces[k].used = 0, s->pieces[k].is_left = false;
}

static void drop_pieces(cuda_queue *q) {
    for (uint32_t k = 0; k < HN_CUDA_STAGE_PIECES; k++) {
        unpin(q, &q->stage.pieces[k].own);
        q->stage.pieces[k].memory = NULL;
    }
    if (q->stage.registered) (void)dev_of(q)->cuda.cuMemHostUnregister(q->stage.registered);
    q->stage.registered = NULL;
    q->stage.piece_bytes = 0;
    reset_pieces(&q->stage);
}

/* The memory of a piece, when it is used for the first time: pinning takes a millisecond for two
 * MiB. */
static hn_status open_piece(cuda_queue *q, cuda_stage_piece *piece) {
    if (piece->memory && piece->left) return NULL;
    if (!piece->left)
        HN_TRY(hn_cuda_check(dev_of(q),
                             dev_of(q)->cuda.cuEventCreate(&piece->left, HN_CUDA_EVENT_NO_TIME),
                             "cuEventCreate"));
    if (piece->memory) return NULL;
    HN_TRY(pin(q, q->stage.piece_bytes, &piece->own));
    piece->memory = piece->own.at;
    return NULL;
}

/* Pieces that are large enough for this copy, as far as pieces go. Copies from smaller ones may be
 * under way. */
static hn_status grow_pieces(cuda_queue *q, size_t bytes) {
    const size_t wanted = power_of_two(bytes, PIECE_LEAST, PIECE_MOST);
    if (wanted <= q->stage.piece_bytes) return NULL;
    if (q->stage.piece_bytes) HN_TRY(wait_for_queue(q));
    drop_pieces(q);
    q->stage.piece_bytes = wanted;
    return NULL;
}

/* Pinning pages that are there takes a tenth of the time. What is refused is pinned memory of the
 * queue's own. */
static void use_memory(cuda_queue *q, uint8_t *memory) {
    cuda_stage *s = &q->stage;
    const int64_t begin = hn_now_ns();
    if (dev_of(q)->cuda.cuMemHostRegister(memory, HN_CUDA_STAGE_PIECES * s->piece_bytes, 0) !=
        HN_CUDA_SUCCESS)
        return;
    s->times.pin_ns += hn_now_ns() - begin;
    s->registered = memory;
    for (uint32_t k = 0; k < HN_CUDA_STAGE_PIECES; k++)
        s->pieces[k].memory = memory + k * s->piece_bytes;
}

hn_status hn_cuda_stage_open(cuda_queue *q, const hn_queue_options *options) {
    cuda_stage *s = &q->stage;
    HN_TRY(grow_pieces(q, options->copy_bytes));
    if (options->copy_memory && s->piece_bytes == options->copy_bytes)
        use_memory(q, options->copy_memory);
    for (uint32_t k = 0; k < HN_CUDA_STAGE_PIECES; k++) HN_TRY(open_piece(q, &s->pieces[k]));
    return NULL;
}

/* The next piece, once the copies from it are done. */
static hn_status next_piece(cuda_queue *q) {
    cuda_stage *s = &q->stage;
    const hn_cuda *cuda = &dev_of(q)->cuda;
    cuda_stage_piece *full = &s->pieces[s->piece];
    if (full->used) {
        HN_TRY(
            hn_cuda_check(dev_of(q), cuda->cuEventRecord(full->left, q->stream), "cuEventRecord"));
        full->is_left = true;
    }
    s->piece = (s->piece + 1) % HN_CUDA_STAGE_PIECES;
    cuda_stage_piece *next = &s->pieces[s->piece];
    if (next->is_left)
        HN_TRY(
            hn_cuda_check(dev_of(q), cuda->cuEventSynchronize(next->left), "cuEventSynchronize"));
    next->is_left = false;
    next->used = 0;
    return open_piece(q, next);
}

static hn_status copy_to(cuda_queue *q, hn_cuda_address to, const void *from, size_t bytes) {
    return hn_cuda_check(dev_of(q), dev_of(q)->cuda.cuMemcpyHtoDAsync(to, from, bytes, q->stream),
                         "cuMemcpyHtoDAsync");
}

/* A piece with room in it. */
static hn_status find_room(cuda_queue *q, cuda_stage_piece **out) {
    cuda_stage *s = &q->stage;
    const bool is_full = s->pieces[s->piece].used == s->piece_bytes;
    const int64_t begin = is_full ? hn_now_ns() : 0;
    if (is_full) HN_TRY(next_piece(q));
    if (is_full) s->times.wait_ns += hn_now_ns() - begin;
    *out = &s->pieces[s->piece];
    return open_piece(q, *out);
}

/* Of small copies nobody asks for the time. */
static int64_t now_for(size_t bytes) { return bytes >= PIECE_LEAST ? hn_now_ns() : 0; }

static hn_status copy_part(cuda_queue *q, hn_cuda_address to, uint8_t *at,
                           const hn_device_maker *maker, size_t from, size_t bytes) {
    cuda_stage_times *t = &q->stage.times;
    const int64_t begin = now_for(bytes);
    make_on_host(q, at, maker, from, bytes);
    const int64_t read = now_for(bytes);
    HN_TRY(copy_to(q, to, at, bytes));
    t->give_ns += now_for(bytes) - read;
    t->read_ns += read - begin;
    t->bytes += bytes;
    return NULL;
}

/* As much as there is room for; small copies begin at multiples of 64 bytes. */
static hn_status stage_part(cuda_queue *q, hn_cuda_address to, const hn_device_maker *maker,
                            size_t from, size_t bytes, size_t *out_done) {
    cuda_stage_piece *piece;
    HN_TRY(find_room(q, &piece));
    const size_t room = q->stage.piece_bytes - piece->used;
    const size_t part = bytes < room ? bytes : room;
    HN_TRY(copy_part(q, to, piece->memory + piece->used, maker, from, part));
    piece->used += (part + 63) / 64 * 64; /* pieces are multiples of it */
    *out_done = part;
    return NULL;
}

hn_status hn_cuda_stage_made(cuda_queue *q, hn_cuda_address to, const hn_device_maker *maker,
                             size_t bytes) {
    HN_TRY(grow_pieces(q, bytes));
    for (size_t done = 0, part; done < bytes; done += part)
        HN_TRY(stage_part(q, to + done, maker, done, bytes - done, &part));
    return NULL;
}

hn_status hn_cuda_stage_in(cuda_queue *q, hn_cuda_address to, const void *from_host, size_t bytes) {
    const host_bytes from = {q->files, from_host};
    if (bytes > PIECE_LEAST && is_pinned(q, from_host, bytes)) {
        const hn_cuda_result code =
            dev_of(q)->cuda.cuMemcpyHtoDAsync(to, from_host, bytes, q->stream);
        if (!is_refusal(code)) return hn_cuda_check(dev_of(q), code, "cuMemcpyHtoDAsync");
    }
    return hn_cuda_stage_made(q, to, &(hn_device_maker){copy_bytes, &from}, bytes);
}

/* ---- from the device ---- */

static hn_status add_landing(cuda_queue *q, size_t bytes) {
    cuda_stage *s = &q->stage;
    const size_t cap = power_of_two(bytes, LANDING_LEAST, LANDING_MOST);
    if (s->landing_count == s->landing_room) {
        const uint32_t room = 2 * s->landing_room + 4;
        cuda_pinned *more = realloc(s->landings, room * sizeof *more);
        if (!more) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to copy from a device");
        s->landings = more;
        s->landing_room = room;
    }
    HN_TRY(pin(q, cap, &s->landings[s->landing_count]));
    s->landing_count++;
    s->landing_cap = cap;
    s->landing_used = 0;
    s->landing_bytes += cap;
    return NULL;
}

static hn_status add_copy(cuda_stage *s, cuda_landing copy) {
    if (s->copy_count == s->copy_cap) {
        const uint32_t cap = 2 * s->copy_cap + 8;
        cuda_landing *more = realloc(s->copies, cap * sizeof *more);
        if (!more) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory to copy from a device");
        s->copies = more;
        s->copy_cap = cap;
    }
    s->copies[s->copy_count++] = copy;
    return NULL;
}

static hn_status copy_from(cuda_queue *q, void *to, hn_cuda_address from, size_t bytes) {
    return hn_cuda_check(dev_of(q), dev_of(q)->cuda.cuMemcpyDtoHAsync(to, from, bytes, q->stream),
                         "cuMemcpyDtoHAsync");
}

static hn_status land(cuda_queue *q, void *to_host, hn_cuda_address from, size_t bytes) {
    cuda_stage *s = &q->stage;
    if (!s->landing_count || bytes > s->landing_cap - s->landing_used)
        HN_TRY(add_landing(q, bytes));
    uint8_t *at = s->landings[s->landing_count - 1].at + s->landing_used;
    HN_TRY(add_copy(s, (cuda_landing){to_host, at, bytes}));
    hn_status status = copy_from(q, at, from, bytes);
    if (status) s->copy_count--;
    else s->landing_used += (bytes + 63) / 64 * 64;
    return status;
}

/* What came to a piece goes to its place. */
static hn_status take_out(cuda_queue *q, cuda_stage_piece *piece, uint8_t *to, size_t bytes) {
    HN_TRY(hn_cuda_check(dev_of(q), dev_of(q)->cuda.cuEventSynchronize(piece->left),
                         "cuEventSynchronize"));
    copy_on_host(q, to, piece->memory, bytes);
    return NULL;
}

/* The next part, into a piece with nothing in it. */
static hn_status bring_part(cuda_queue *q, hn_cuda_address from, size_t bytes,
                            cuda_stage_piece **out) {
    cuda_stage *s = &q->stage;
    HN_TRY(next_piece(q));
    cuda_stage_piece *piece = &s->pieces[s->piece];
    piece->used = s->piece_bytes;
    HN_TRY(copy_from(q, piece->memory, from, bytes));
    piece->is_left = true;
    *out = piece;
    return hn_cuda_check(dev_of(q), dev_of(q)->cuda.cuEventRecord(piece->left, q->stream),
                         "cuEventRecord");
}

/* What there is no room for: the host copies a part from one piece while the next part comes to the
 * other, and waits for the device. */
static hn_status bring_by_parts(cuda_queue *q, uint8_t *to, hn_cuda_address from, size_t bytes) {
    cuda_stage_piece *piece = NULL, *last = NULL;
    size_t last_bytes = 0, part;
    HN_TRY(grow_pieces(q, bytes));
    for (size_t done = 0; done < bytes; done += part) {
        part = bytes - done < q->stage.piece_bytes ? bytes - done : q->stage.piece_bytes;
        HN_TRY(bring_part(q, from + done, part, &piece));
        if (last) HN_TRY(take_out(q, last, to + done - last_bytes, last_bytes));
        last = piece;
        last_bytes = part;
    }
    return take_out(q, last, to + bytes - last_bytes, last_bytes);
}

hn_status hn_cuda_stage_out(cuda_queue *q, void *to_host, hn_cuda_address from, size_t bytes) {
    const cuda_stage *s = &q->stage;
    const bool has_room = (s->landing_count && bytes <= s->landing_cap - s->landing_used) ||
                          (bytes <= LANDING_MOST && s->landing_bytes <= LANDING_MOST - bytes);
    if (bytes > PIECE_LEAST && is_pinned(q, to_host, bytes)) {
        const hn_cuda_result code =
            dev_of(q)->cuda.cuMemcpyDtoHAsync(to_host, from, bytes, q->stream);
        if (!is_refusal(code)) return hn_cuda_check(dev_of(q), code, "cuMemcpyDtoHAsync");
    }
    return has_room ? land(q, to_host, from, bytes) : bring_by_parts(q, to_host, from, bytes);
}

/* One block is kept: all of what a run has needed, so that the next one finds it in one. */
static void shrink_landings(cuda_queue *q) {
    cuda_stage *s = &q->stage;
    const size_t wanted = s->landing_bytes;
    s->landing_used = 0;
    if (s->landing_count < 2) return;
    while (s->landing_count) unpin(q, &s->landings[--s->landing_count]);
    s->landing_bytes = s->landing_cap = 0;
    hn_status status = add_landing(q, wanted);
    hn_status_free(status); /* the next run asks again, and tells */
}

void hn_cuda_stage_finish(cuda_queue *q, bool is_good) {
    cuda_stage *s = &q->stage;
    for (uint32_t k = 0; k < s->copy_count && is_good; k++)
        copy_on_host(q, s->copies[k].to_host, s->copies[k].from, s->copies[k].bytes);
    s->copy_count = 0;
    reset_pieces(s);
    shrink_landings(q);
}

static void tell_times(const cuda_stage *s) {
    enum { TELL_FROM = 1 << 20 }; /* bytes */
    const cuda_stage_times *t = &s->times;
    if (t->bytes < TELL_FROM || !hn_log_on("run", HN_LOG_DEBUG)) return;
    hn_log("run", HN_LOG_DEBUG,
           "a queue has copied %.1f MB to the device: pinned memory %.2f ms, reading %.2f ms, "
           "calls of the driver %.2f ms, waiting for the device %.2f ms",
           (double)t->bytes / 1e6, (double)t->pin_ns / 1e6, (double)t->read_ns / 1e6,
           (double)t->give_ns / 1e6, (double)t->wait_ns / 1e6);
}

void hn_cuda_stage_deinit(cuda_queue *q) {
    cuda_stage *s = &q->stage;
    tell_times(s);
    drop_pieces(q);
    for (uint32_t k = 0; k < HN_CUDA_STAGE_PIECES; k++)
        if (s->pieces[k].left) (void)dev_of(q)->cuda.cuEventDestroy(s->pieces[k].left);
    while (s->landing_count) unpin(q, &s->landings[--s->landing_count]);
    free(s->landings);
    free(s->copies);
}
