/* key.c: the graph cache's key: everything that decides the image, as a record of named fields
 * (cache/record.h), so that `henry cache why` can name the one that changed.
 *
 * The importer says what of the model counts (front/importer.h): the graph, and where its weights
 * lie. Options, target, compiler and Henry's own version stand beside it. What values of weights a
 * program was made from comes in graph_cache.c. */
#include "driver/key.h"

#include "bundle/format.h"
#include "cache/record.h"
#include "driver/build.h"
#include "henry/abi/extern_abi.h"
#include "henry/abi/kernel_abi.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

/* Raised whenever the same input may give another image. */
#define HN_DRIVER_VERSION "1"

static void add_text(hn_strbuf *out, const char *name, const char *text) {
    hn_record_add(out, name, hn_str_of(text ? text : ""));
}

/* In words for `henry cache why`, and exactly. */
static void add_part(hn_strbuf *out, const char *name, const hn_key_part *part) {
    char hex[HN_DIGEST_HEX_BYTES], text[HN_DIGEST_HEX_BYTES + 64];
    hn_digest_hex(&part->digest, hex);
    snprintf(text, sizeof text, "%u records, %llu bytes (%s)", part->records,
             (unsigned long long)part->bytes, hex);
    add_text(out, name, text);
}

static hn_status add_model(hn_model_file *file, bool is_shared, hn_strbuf *out) {
    hn_model_key key;
    HN_TRY(file->importer->key_parts(file, is_shared, &key));
    add_part(out, "graph", &key.graph);
    add_part(out, "weights", &key.weights);
    return NULL;
}

hn_status hn_driver_key_graph(hn_model_file *file, hn_strbuf *out) {
    hn_model_key key;
    HN_TRY(file->importer->key_parts(file, true, &key));
    add_part(out, "graph", &key.graph);
    return hn_strbuf_status(out);
}

static void add_size_and_time(hn_strbuf *out, const char *name, const struct stat *st) {
    char text[96];
    snprintf(text, sizeof text, "%lld bytes, changed %lld.%09ld", (long long)st->st_size,
             (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    add_text(out, name, text);
}

bool hn_driver_key_is_shared(const hn_model_file *file, const hn_options *options) {
    return file->may_share && !HN_OPT(options, embed_weights);
}

hn_status hn_driver_key_check(const hn_model_file *file, const hn_options *options) {
    /* the checksums of all records are in the key */
    if (!hn_driver_key_is_shared(file, options)) return NULL;
    return file->importer->key_check(file);
}

/* A program that belongs to one file finds it again by path. */
static void add_path(const char *path, hn_strbuf *out) {
    char real[PATH_MAX];
    struct stat st;
    add_text(out, "path", realpath(path, real) ? real : path);
    if (stat(path, &st) == 0) add_size_and_time(out, "file", &st);
}

/* Another build of Henry may make another image of the same model. */
static void add_build(hn_strbuf *out) {
    char formats[96];
    snprintf(formats, sizeof formats, "pipeline %s, bundle %d, kernel %d, extern %d",
             HN_DRIVER_VERSION, HNB_VERSION, HN_KERNEL_ABI_VERSION, HN_EXTERN_ABI_VERSION);
    add_text(out, "formats", formats);
    add_text(out, "build", hn_build_identity());
}

void hn_driver_key_machine(const hn_graph_key *key, hn_strbuf *out) {
    add_build(out);
    hn_record_add(out, "environment", key->environment);
    hn_options_key(key->options, out);
}

hn_status hn_driver_key_record(hn_model_file *file, const hn_graph_key *key, hn_strbuf *out) {
    bool is_shared = hn_driver_key_is_shared(file, key->options);
    hn_driver_key_machine(key, out);
    if (!is_shared && key->path) add_path(key->path, out);
    if (!is_shared && !key->path) hn_record_add(out, "file", key->content);
    HN_TRY(add_model(file, is_shared, out));
    return hn_strbuf_status(out);
}
