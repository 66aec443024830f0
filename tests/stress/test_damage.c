/* test_damage.c: entries of the cache and bundles with damage: every byte changed, every length
 * cut, and random damage of many kinds, a million times. All of it must be found, none of it may be
 * fatal, and a damaged cache must cost no more than the work of making the entry again. */
#include "cache/entry.h"
#include "cache/record.h"
#include "henry/bundle.h"
#include "henry/program.h"

#include "base/log.h"
#include "base/str.h"
#include "stress/stress.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "examples/data/digits/model.pt2"

enum { PAYLOAD_BYTES = 1500, GROWTH_BYTES = 64, RANDOM_ROUNDS = 1000000, QUICK_ROUNDS = 30000 };

/* ---- random damage ---- */

/* Changes `bytes` (with room for GROWTH_BYTES more); true when the result differs from `whole`. */
static bool damage(uint8_t *bytes, size_t *len, hn_str whole, uint64_t *random) {
    memcpy(bytes, whole.ptr, whole.len);
    *len = whole.len;
    uint64_t kinds = 1 + stress_below(random, 3);
    for (uint64_t k = 0; k < kinds; k++) {
        size_t at = *len ? (size_t)stress_below(random, *len) : 0, left = *len - at;
        size_t run = left ? 1 + (size_t)stress_below(random, left < 64 ? left : 64) : 0;
        switch (*len ? stress_below(random, 8) : 7) {
        case 0: bytes[at] ^= (uint8_t)(1u << stress_below(random, 8)); break;
        case 1: bytes[at] = (uint8_t)stress_next(random); break;
        case 2: memset(bytes + at, 0, run); break;
        case 3: memset(bytes + at, 0xff, run); break;
        case 4: memmove(bytes + at, bytes + stress_below(random, *len - run + 1), run); break;
        case 5: *len = at; break;
        case 6:
            memset(bytes + at, 0, left);
            break; /* a page that was never written, or the rest of the file */
        default:   /* something behind it */
            run = 1 + (size_t)stress_below(random, GROWTH_BYTES / 4);
            if (*len + run > whole.len + GROWTH_BYTES) break;
            memset(bytes + *len, (int)stress_below(random, 256), run);
            *len += run;
        }
    }
    return *len != whole.len || memcmp(bytes, whole.ptr, whole.len) != 0;
}

/* ---- entries ---- */

static uint8_t payload[PAYLOAD_BYTES];
static hn_digest key;

static hn_store_put_args entry_args(hn_strbuf *record) {
    stress_fill(payload, sizeof(payload), 7);
    key = hn_digest_of(payload, 9);
    hn_record_add(record, "language", HN_STR("c"));
    hn_record_add(record, "text", HN_STR("int f(int x) { return x + 1; }"));
    return (hn_store_put_args){.ns = HN_STORE_KERNEL,
                               .key = &key,
                               .bytes = payload,
                               .len = sizeof(payload),
                               .record = hn_strbuf_str(record)};
}

static bool entry_is_refused(const void *bytes, size_t len) {
    hn_entry_footer footer;
    hn_status status = hn_entry_verify(bytes, len, HN_STORE_KERNEL, &key, &footer);
    hn_code code = hn_status_code(status);
    hn_status_free(status);
    return code == HN_CORRUPT || code == HN_INCOMPATIBLE;
}

TEST(entries) {
    hn_strbuf record, whole;
    hn_strbuf_init(&record);
    hn_strbuf_init(&whole);
    hn_store_put_args args = entry_args(&record);
    hn_entry_encode(&args, &whole);
    uint8_t *bytes = (uint8_t *)whole.ptr, *changed = malloc(whole.len + GROWTH_BYTES);
    hn_entry_footer footer;
    long missed = 0, tried = 0, made = 0, rounds = stress_rounds(RANDOM_ROUNDS, QUICK_ROUNDS);
    stress_begin();
    EXPECT_OK(hn_entry_verify(bytes, whole.len, HN_STORE_KERNEL, &key, &footer));
    for (size_t at = 0; at < whole.len; at++) {
        for (unsigned flip = 1; flip < 256; flip++, tried++) {
            bytes[at] ^= (uint8_t)flip;
            missed += !entry_is_refused(bytes, whole.len);
            bytes[at] ^= (uint8_t)flip;
        }
    }
    for (size_t len = 0; len < whole.len; len++, tried++) missed += !entry_is_refused(bytes, len);
    uint64_t random = stress.seed;
    for (long k = 0; k < rounds; k++) {
        size_t len;
        if (!damage(changed, &len, hn_strbuf_str(&whole), &random)) continue;
        made++;
        missed += !entry_is_refused(changed, len);
    }
    EXPECT_INT(missed, 0);
    EXPECT_OK(hn_entry_verify(bytes, whole.len, HN_STORE_KERNEL, &key, &footer));
    stress_row("entry: every byte changed in every way, every truncation, random damage",
               "all detected, none fatal; 10^6 random",
               "%zu bytes: %ld changes and truncations, %ld random, %ld not detected", whole.len,
               tried, made, missed);
    free(changed);
    hn_strbuf_deinit(&record);
    hn_strbuf_deinit(&whole);
}

static void write_file(const char *path, const void *bytes, size_t len) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    EXPECT(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
}

/* A damaged file of the store: a miss, gone from its place, and made again. */
static bool heals(hn_store *store, const char *path, const hn_store_put_args *args,
                  const void *bytes, size_t len) {
    hn_store_entry entry;
    write_file(path, bytes, len);
    if (hn_store_get(store, HN_STORE_KERNEL, &key, &entry)) {
        hn_store_entry_deinit(&entry);
        return false;
    }
    if (hn_file_exists(path) || !hn_store_put(store, args) ||
        !hn_store_get(store, HN_STORE_KERNEL, &key, &entry))
        return false;
    bool ok = entry.len == args->len && memcmp(entry.bytes, args->bytes, args->len) == 0;
    hn_store_entry_deinit(&entry);
    return ok;
}

TEST(files_of_the_store) {
    char dir[PATH_MAX - 64], path[PATH_MAX];
    hn_store *store = NULL;
    hn_strbuf record, whole;
    hn_strbuf_init(&record);
    hn_strbuf_init(&whole);
    hn_log_configure("error");
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    EXPECT_OK(hn_store_open(&(hn_store_options){.dir = dir, .max_bytes = 4 << 20}, &store));
    hn_store_put_args args = entry_args(&record);
    EXPECT(hn_store_put(store, &args));
    hn_store_entry_path(store, HN_STORE_KERNEL, &key, path);
    EXPECT_OK(hn_file_read(path, &whole));
    long bad = 0, tried = 0;
    size_t step = stress.is_quick ? 13 : 1;
    uint64_t random = stress.seed;
    stress_begin();
    for (size_t at = 0; at < whole.len; at += step, tried++) {
        uint8_t flip = (uint8_t)(1 + stress_below(&random, 255));
        whole.ptr[at] = (char)(whole.ptr[at] ^ flip);
        bool is_version = at >= whole.len - 16 &&
                          at < whole.len - 12; /* left alone: it belongs to another Henry */
        if (!is_version) bad += !heals(store, path, &args, whole.ptr, whole.len);
        whole.ptr[at] = (char)(whole.ptr[at] ^ flip);
    }
    for (size_t len = 0; len < whole.len; len += step, tried++)
        bad += !heals(store, path, &args, whole.ptr, len);
    EXPECT_INT(bad, 0);
    hn_store_stats stats;
    hn_store_stats_get(store, &stats);
    EXPECT(stats.quarantined > 100);
    stress_row("file of the store: each byte changed, every truncation",
               "a miss, quarantined, made again",
               "%ld files, %llu quarantined, %ld not found or not healed", tried,
               (unsigned long long)stats.quarantined, bad);
    hn_log_configure(NULL);
    hn_store_close(store);
    hn_strbuf_deinit(&record);
    hn_strbuf_deinit(&whole);
    EXPECT_OK(hn_dir_remove(dir));
}

/* ---- bundles ---- */

static hn_compiled *compile_digits(const char *cache_dir, bool embed) {
    hn_compiled *compiled = NULL;
    EXPECT_OK(hn_compile_file(MODEL,
                              &(hn_compile_options){.cache_dir = cache_dir,
                                                    .remote_url = "",
                                                    .embed_weights = embed,
                                                    .verify = embed,
                                                    .threads = 2},
                              &compiled));
    return compiled;
}

/* The bytes lie in a file without a name, so that a change is one system call. */
typedef struct bundle_file {
    int fd;
    char path[64];
} bundle_file;

/* A damaged signature is no damage to the reader, but a refusal all the same. */
static bool bundle_is_refused(const bundle_file *file) {
    hn_status status = hn_bundle_verify_file(file->path, true);
    hn_code code = hn_status_code(status);
    if (code != HN_OK && code != HN_CORRUPT && code != HN_INCOMPATIBLE && getenv("HN_STRESS_SCENE"))
        fprintf(stderr, "  %s: %s\n", hn_code_name(code), hn_status_message(status));
    hn_status_free(status);
    return code != HN_OK && code != HN_INTERNAL;
}

static void put_bytes(const bundle_file *file, const void *bytes, size_t len) {
    EXPECT(ftruncate(file->fd, 0) == 0 && pwrite(file->fd, bytes, len, 0) == (ssize_t)len);
}

/* Loading must not be fatal; what it says does not matter, since it need not read every byte. */
static long try_to_load(const bundle_file *file) {
    hn_module *module = NULL;
    hn_status status = hn_module_load_file(file->path, &(hn_module_options){.threads = 1}, &module);
    bool loaded = !status;
    hn_status_free(status);
    hn_module_release(module);
    return loaded;
}

static long change_each_byte(const bundle_file *file, hn_str whole, long *missed) {
    long tried = 0;
    size_t step = stress.is_quick ? 1 + whole.len / 2000 : 1;
    uint64_t random = stress.seed;
    for (size_t at = 0; at < whole.len; at += step, tried++) {
        char was = whole.ptr[at], is = (char)(was ^ (char)(1 + stress_below(&random, 255)));
        EXPECT(pwrite(file->fd, &is, 1, (off_t)at) == 1);
        if (!bundle_is_refused(file) && ++*missed < 5)
            fprintf(stderr, "  byte %zu of %zu, %02x to %02x, was not detected\n", at, whole.len,
                    (unsigned char)was, (unsigned char)is);
        EXPECT(pwrite(file->fd, &was, 1, (off_t)at) == 1);
    }
    for (size_t len = whole.len; len-- > 0;) {
        if (len % step) continue;
        EXPECT(ftruncate(file->fd, (off_t)len) == 0);
        if (!bundle_is_refused(file) && ++*missed < 5)
            fprintf(stderr, "  cut to %zu of %zu bytes was not detected\n", len, whole.len);
        tried++;
    }
    return tried;
}

static long change_at_random(const bundle_file *file, hn_str whole, long rounds, long *missed,
                             long *loaded) {
    uint8_t *changed = malloc(whole.len + GROWTH_BYTES);
    uint64_t random = stress.seed;
    long made = 0;
    for (long k = 0; k < rounds; k++) {
        size_t len;
        if (!damage(changed, &len, whole, &random)) continue;
        made++;
        put_bytes(file, changed, len);
        *missed += !bundle_is_refused(file);
        if (k % 16 == 0) *loaded += try_to_load(file);
    }
    free(changed);
    return made;
}

TEST(bundles) {
    char dir[PATH_MAX];
    size_t len;
    long missed = 0, loaded = 0;
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    hn_compiled *compiled = compile_digits(dir, true);
    if (!compiled) return;
    const char *bytes = hn_compiled_image(compiled, &len);
    char *copy = malloc(len);
    memcpy(copy, bytes, len);
    hn_str whole = {copy, len};
    bundle_file file = {.fd = memfd_create("bundle", MFD_CLOEXEC)};
    snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.fd);
    put_bytes(&file, whole.ptr, whole.len);
    EXPECT_OK(hn_bundle_verify_file(file.path, true));
    stress_begin();
    long tried = change_each_byte(&file, whole, &missed);
    long made = change_at_random(&file, whole, stress_rounds(RANDOM_ROUNDS, QUICK_ROUNDS / 10),
                                 &missed, &loaded);
    EXPECT_INT(missed, 0);
    put_bytes(&file, whole.ptr, whole.len);
    EXPECT_OK(hn_bundle_verify_file(file.path, true));
    stress_row("bundle: each byte changed, every truncation, random damage",
               "all detected, none fatal; 10^6 random",
               "%zu bytes: %ld changes and truncations, %ld random, %ld not detected; each 16th "
               "also loaded, %ld of them without a complaint",
               len, tried, made, missed, loaded);
    close(file.fd);
    free(copy);
    hn_compiled_release(compiled);
    EXPECT_OK(hn_dir_remove(dir));
}

/* ---- a compilation on a damaged cache ---- */

static uint64_t walk_random;
static long walk_damaged;

/* Changes a byte of an entry, or cuts it. */
static int damage_file(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)where;
    if (type != FTW_F || info->st_size < 200 || strstr(path, "/quarantine/")) return 0;
    uint64_t at = stress_below(&walk_random, (uint64_t)info->st_size);
    uint8_t byte = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return 0;
    bool ok = pread(fd, &byte, 1, (off_t)at) == 1;
    byte ^= (uint8_t)(1 + stress_below(&walk_random, 255));
    if (stress_below(&walk_random, 4) == 0) ok = ok && ftruncate(fd, (off_t)at) == 0;
    else ok = ok && pwrite(fd, &byte, 1, (off_t)at) == 1;
    walk_damaged += ok;
    close(fd);
    return 0;
}

TEST(compiling_with_a_damaged_cache) {
    char dir[PATH_MAX];
    size_t len, again_len;
    long rounds = stress.is_quick ? 5 : 300, wrong = 0;
    hn_log_configure("error");
    EXPECT_OK(hn_dir_temp(dir, sizeof(dir)));
    hn_compiled *first = compile_digits(dir, false);
    const void *image = first ? hn_compiled_image(first, &len) : NULL;
    walk_random = stress.seed;
    walk_damaged = 0;
    stress_begin();
    for (long k = 0; image && k < rounds; k++) {
        EXPECT(nftw(dir, damage_file, 16, FTW_PHYS) == 0);
        hn_compiled *again = compile_digits(dir, false);
        const void *same = again ? hn_compiled_image(again, &again_len) : NULL;
        wrong += !same || again_len != len || memcmp(image, same, len) != 0;
        hn_compiled_release(again);
    }
    EXPECT_INT(wrong, 0);
    EXPECT(walk_damaged >= rounds);
    stress_row("compilation with every entry of the cache damaged", "rebuilt, the same result",
               "%ld compilations, %ld entries damaged, %ld with another result", rounds,
               walk_damaged, wrong);
    hn_compiled_release(first);
    hn_log_configure(NULL);
    EXPECT_OK(hn_dir_remove(dir));
}

int main(int argc, char **argv) { return stress_main(argc, argv); }
