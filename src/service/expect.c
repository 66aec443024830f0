/* expect.c: how long a job will take, as far as that can be known, so that the longest one starts first: one that starts
 * last is what everybody would wait for.
 *
 * A job that was compiled here before takes what it took then (its result was dropped, or is not kept, or a header of it
 * has changed). Else the size of its record tells, by the rate of its language so far: a byte of C++ takes several times
 * what a byte of C takes. Before the first job of a language has ended, its rate is a guess. */
#include "service/core.h"

enum { FIRST_NS_PER_BYTE = 20000 }; /* a small kernel of C: 1 KB in 20 ms */

static uint32_t slot_of(const hn_digest *key) {
    uint32_t hash;
    memcpy(&hash, key->bytes + sizeof(hash), sizeof(hash)); /* the table of jobs uses the bytes in front */
    return hash % HN_DURATIONS;
}

void hn_core_note_duration(hn_core *core, const hn_job *job, int64_t ns) {
    uint32_t language = hn_toolchain_row_index(job->row);
    core->durations[slot_of(&job->key)] = (hn_duration){.key = job->key, .ns = ns};
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
