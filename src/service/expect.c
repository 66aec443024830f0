/* expect.c: how long a job will take, as far as that can be known, so that the longest one starts first: one that starts
 * last is what everybody would wait for.
 *
 * A job that was compiled here before takes what it took then (its result was dropped, or is not kept, or a header of it
 * has changed). Else the size of its record tells, by the rate of its language so far: a byte of C++ takes several times
 * what a byte of C takes. Before the first job of a language has ended, its rate is a guess.
 *
 * What jobs took is kept on the disk too, in one entry of the store that stays on this machine: read when the first job has to
 * be compiled, written together with what others wrote meanwhile. It decides about the order alone: no key and no result has
 * anything of it, and without a disk, or when it does not verify, there is just less to go by. */
#include "service/core.h"

#include "base/lock.h"
#include "base/trace.h"

enum {
    FIRST_NS_PER_BYTE = 20000, /* a small kernel of C: 1 KB in 20 ms */
    KEEP_EVERY_MS = 2000,      /* while there is work; the rest when the service or the program ends */
};
#define LONGEST_NS ((int64_t)24 * 3600 * 1000000000)
_Static_assert(sizeof(hn_duration) == 40, "durations are kept as they lie in memory");

static uint32_t slot_of(const hn_digest *key) {
    uint32_t hash;
    memcpy(&hash, key->bytes + sizeof(hash), sizeof(hash)); /* the table of jobs uses the bytes in front */
    return hash % HN_DURATIONS;
}

void hn_core_note_duration(hn_core *core, const hn_job *job, int64_t ns) {
    uint32_t language = hn_toolchain_row_index(job->row);
    core->durations[slot_of(&job->key)] = (hn_duration){.key = job->key, .ns = ns};
    if (!core->durations_noted++) core->durations_kept_ns = hn_now_ns();
    if (language < HN_TOOLCHAIN_ROWS) core->record_bytes[language] += (int64_t)job->key_record.len;
}

static double ns_per_byte(const hn_core *core, uint32_t language) {
    if (language >= HN_SERVICE_LANGUAGES || language >= HN_TOOLCHAIN_ROWS || !core->record_bytes[language]) return FIRST_NS_PER_BYTE;
    return (double)core->stats.service_time[language].total_ns / (double)core->record_bytes[language];
}

int64_t hn_core_expected_ns(const hn_core *core, const hn_job *job) {
    const hn_duration *known = &core->durations[slot_of(&job->key)];
    if (known->ns && memcmp(&known->key, &job->key, sizeof(job->key)) == 0) return known->ns;
    return (int64_t)(ns_per_byte(core, hn_toolchain_row_index(job->row)) * (double)job->key_record.len);
}

/* ---- on the disk ---- */

static hn_digest entry_key(void) { return hn_digest_of("durations 1", sizeof("durations 1")); }

/* What this process has seen itself, and what it has read before, stays. */
static void merge(hn_core *core, const uint8_t *bytes, size_t len) {
    for (hn_duration known; len >= sizeof(known); bytes += sizeof(known), len -= sizeof(known)) {
        memcpy(&known, bytes, sizeof(known));
        hn_duration *slot = &core->durations[slot_of(&known.key)];
        if (!slot->ns && known.ns > 0 && known.ns <= LONGEST_NS) *slot = known;
    }
}

static void read_entry(hn_core *core) {
    const hn_digest key = entry_key();
    hn_store_entry entry;
    if (!hn_store_get(core->service->store, HN_STORE_TOOLCHAIN, &key, &entry)) return;
    hn_lock(&core->lock);
    merge(core, entry.bytes, entry.len);
    hn_unlock(&core->lock);
    hn_store_entry_deinit(&entry);
}

void hn_core_learn_durations(hn_core *core) {
    if (!atomic_exchange(&core->has_learnt, true)) read_entry(core);
}

static bool is_due(hn_core *core, bool is_last) {
    hn_lock(&core->lock);
    int64_t now_ns = hn_now_ns();
    bool is_due = core->durations_noted && (is_last || now_ns - core->durations_kept_ns >= KEEP_EVERY_MS * 1000000LL);
    if (is_due) core->durations_noted = 0;
    hn_unlock(&core->lock);
    return is_due;
}

void hn_core_keep_durations(hn_core *core, bool is_last) {
    const hn_digest key = entry_key();
    hn_strbuf bytes;
    if (!is_due(core, is_last)) return;
    read_entry(core);
    hn_strbuf_init(&bytes);
    hn_lock(&core->lock);
    for (uint32_t i = 0; i < HN_DURATIONS; i++)
        if (core->durations[i].ns) hn_strbuf_append(&bytes, (const char *)&core->durations[i], sizeof(core->durations[i]));
    hn_unlock(&core->lock);
    if (!bytes.failed) /* it counts and warns itself */
        (void)hn_store_put(core->service->store, &(hn_store_put_args){
                                                        .ns = HN_STORE_TOOLCHAIN, .key = &key, .bytes = bytes.ptr, .len = bytes.len, .is_brief = is_last});
    hn_strbuf_deinit(&bytes);
}
