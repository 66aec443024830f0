/* edit_pt2.c: makes damaged .pt2 files out of a good one.
 *
 *     edit_pt2 IN OUT [ACTION]...
 *
 *     replace RECORD OLD NEW     the first OLD in the record becomes NEW; OLD must be there
 *     replace_all RECORD OLD NEW
 *     nest RECORD COUNT          the record becomes COUNT opening brackets
 *     rename RECORD NAME         duplicate RECORD        drop RECORD
 *     deflate                    all records are packed again, as an archiver would
 *     flip RECORD                a byte in the middle is another one; the checksum stays
 *     checksum RECORD            the checksum is another one
 *     no_checksums               all checksums are 0
 *     bomb RECORD MIB            the record inflates to zeros, and says so
 *     lie RECORD MIB             the record inflates to zeros, and says 100 bytes
 *
 * Exit status 0, or 1 with a message. */
#include "front/pt2/zip.h"
#include "tests/unit/front/zip_writer.h"

#include "base/file.h"

enum { MAX_RECORDS = 60 };

typedef struct record {
    char name[128];
    char *bytes; /* owned */
    size_t len;
    uint32_t lie;       /* size to claim; 0: the right one */
    uint32_t spoil_crc; /* bits to change in the checksum */
    bool packed, flip;
} record;

typedef struct editor {
    record records[MAX_RECORDS];
    uint32_t count;
    bool no_checksums;
} editor;

static int die(const char *what, const char *which) {
    fprintf(stderr, "edit_pt2: %s '%s'\n", what, which);
    exit(1);
}

static char *copy_bytes(const char *bytes, size_t len) {
    char *copy = malloc(len + 1);
    if (!copy) die("no memory for", "a record");
    if (len) memcpy(copy, bytes, len);
    copy[len] = 0;
    return copy;
}

static void check(hn_status status) {
    if (status) die("cannot read the archive:", hn_status_message(status));
}

static void load(editor *e, const char *path) {
    hn_arena arena;
    hn_zip zip;
    hn_file_map map;
    hn_arena_init(&arena);
    check(hn_file_map_init(&map, path));
    check(hn_zip_open(&zip, &arena, map.data, map.size_bytes));
    if (zip.entries.count > MAX_RECORDS) die("too many records in", path);
    for (uint32_t k = 0; k < zip.entries.count; k++) {
        hn_str bytes;
        record *r = &e->records[e->count++];
        check(hn_zip_read(&zip, &zip.entries.items[k], HN_ZIP_TRUST, &bytes, NULL));
        snprintf(r->name, sizeof r->name, HN_STR_FMT, HN_STR_ARG(zip.entries.items[k].name));
        r->bytes = copy_bytes(bytes.ptr, bytes.len);
        r->len = bytes.len;
    }
    hn_arena_deinit(&arena);
    hn_file_map_deinit(&map);
}

/* By the end of its name, so that tests need not know the archive's folder. */
static record *find(editor *e, const char *name) {
    for (uint32_t k = 0; k < e->count; k++) {
        size_t have = strlen(e->records[k].name), want = strlen(name);
        if (have >= want && strcmp(e->records[k].name + have - want, name) == 0)
            return &e->records[k];
    }
    die("no record", name);
    return NULL;
}

static void set_bytes(record *r, char *bytes, size_t len) {
    free(r->bytes);
    r->bytes = bytes;
    r->len = len;
}

/* The first `old` at or behind `from`; where the text behind it begins, 0 when there is none. */
static size_t replace(record *r, size_t from, const char *old, const char *new) {
    char *at = from <= r->len ? strstr(r->bytes + from, old) : NULL;
    if (!at) return 0;
    size_t before = (size_t)(at - r->bytes), len = r->len - strlen(old) + strlen(new);
    char *bytes = copy_bytes(r->bytes, before);
    bytes = realloc(bytes, len + 1);
    if (!bytes) die("no memory for", r->name);
    memcpy(bytes + before, new, strlen(new));
    memcpy(bytes + before + strlen(new), at + strlen(old), r->len - before - strlen(old) + 1);
    set_bytes(r, bytes, len);
    return before + strlen(new);
}

static void replace_some(record *r, const char *old, const char *new, bool all) {
    size_t from = replace(r, 0, old, new);
    if (!from) die("no such text:", old);
    while (all && from) from = replace(r, from, old, new);
}

static void fill(record *r, char byte, size_t len) {
    char *bytes = malloc(len + 1);
    if (!bytes) die("no memory for", r->name);
    memset(bytes, byte, len);
    bytes[len] = 0;
    set_bytes(r, bytes, len);
}

static void save(const editor *e, const char *path) {
    zip_writer z = {0};
    for (uint32_t k = 0; k < e->count; k++) {
        const record *r = &e->records[k];
        uint32_t crc = libdeflate_crc32(0, r->bytes, r->len);
        if (r->flip) r->bytes[r->len / 2] ^= 0x10;
        zip_writer_entry *entry = zip_writer_add(&z, r->name, r->bytes, r->len, r->packed);
        entry->crc = e->no_checksums ? 0 : crc ^ r->spoil_crc;
        if (r->lie) entry->size = r->lie;
    }
    zip_writer_end(&z);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(z.bytes, 1, z.len, file) != z.len || fclose(file) != 0)
        die("cannot write", path);
    zip_writer_free(&z);
}

/* Reads an action from `argv`; how many words it was. */
static int act(editor *e, int argc, char **argv) {
    const char *verb = argv[0];
    if (strcmp(verb, "deflate") == 0) {
        for (uint32_t k = 0; k < e->count; k++) e->records[k].packed = true;
        return 1;
    }
    if (strcmp(verb, "no_checksums") == 0) return e->no_checksums = true, 1;
    record *r = argc > 1 ? find(e, argv[1]) : NULL;
    if (!r) die("what record, for", verb);
    if (strncmp(verb, "replace", 7) == 0 && argc > 3)
        return replace_some(r, argv[2], argv[3], verb[7] != 0), 4;
    if (strcmp(verb, "flip") == 0) return r->flip = true, 2;
    if (strcmp(verb, "checksum") == 0) return r->spoil_crc = 1, 2;
    if (strcmp(verb, "nest") == 0 && argc > 2) return fill(r, '[', strtoul(argv[2], NULL, 10)), 3;
    if (strcmp(verb, "rename") == 0 && argc > 2)
        return snprintf(r->name, sizeof r->name, "%s", argv[2]), 3;
    if (strcmp(verb, "duplicate") == 0 && e->count < MAX_RECORDS) {
        e->records[e->count] = *r;
        e->records[e->count++].bytes = copy_bytes(r->bytes, r->len);
        return 2;
    }
    if (strcmp(verb, "drop") == 0) {
        free(r->bytes);
        *r = e->records[--e->count];
        return 2;
    }
    if ((strcmp(verb, "bomb") == 0 || strcmp(verb, "lie") == 0) && argc > 2) {
        fill(r, 0, strtoul(argv[2], NULL, 10) << 20);
        r->packed = true;
        r->lie = *verb == 'l' ? 100 : 0;
        return 3;
    }
    return die("no such action, or words are missing:", verb);
}

int main(int argc, char **argv) {
    static editor e;
    if (argc < 3) return die("usage: edit_pt2 IN OUT [ACTION]...", "");
    load(&e, argv[1]);
    for (int k = 3; k < argc;) k += act(&e, argc - k, argv + k);
    save(&e, argv[2]);
    for (uint32_t k = 0; k < e.count; k++) free(e.records[k].bytes);
    return 0;
}
