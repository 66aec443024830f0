/* key.h: the key of the graph cache. */
#ifndef HN_DRIVER_KEY_H
#define HN_DRIVER_KEY_H

#include "base/hash.h"
#include "driver/options.h"
#include "front/importer.h"
#include "henry/program.h"

/* What a program depends on before anything of it is known: options, target, this build, the graph,
 * where its weights lie, and the compiler, which comes last (graph_cache.h). Which values of
 * weights it depends on, and which sizes, is known when it was compiled. */
typedef struct hn_graph_key {
    const hn_options *options; /* with the targets */
    hn_str environment;        /* variables that compilers of kernels may read */
    const char *path;          /* of the model file; NULL: it is in memory, */
    hn_str content;            /* and this describes all its bytes */
} hn_graph_key;

/* Whether a program of this file can serve other files with equal graphs, that is, weights are
 * found by their place in the file and nothing else of them is known. Not so for weights that
 * become part of the program, and for files of which the importer says so (may_share); those
 * programs belong to one file at one path. */
bool hn_driver_key_is_shared(const hn_model_file *file, const hn_options *options);

/* Appends the fields that no model is needed for: formats, build, environment, options. Latches in
 * `out`. */
void hn_driver_key_machine(const hn_graph_key *key, hn_strbuf *out);
/* Appends the field of the model's graph, whichever file it is in. Errors: as
 * hn_driver_key_record. */
hn_status hn_driver_key_graph(hn_model_file *file, hn_strbuf *out) HN_MUST_USE;
/* Appends the key record without the compiler.
 * Errors: those of the importer's key_parts; out-of-memory. */
hn_status hn_driver_key_record(hn_model_file *file, const hn_graph_key *key,
                               hn_strbuf *out) HN_MUST_USE;

/* Errors: internal, naming a record of the file that the importer read and whose bytes are not in
 * the key. */
hn_status hn_driver_key_check(const hn_model_file *file, const hn_options *options) HN_MUST_USE;

/* What a bundle records of the key: a summary without the path and the times of the model file,
 * which are no matter of the program. Latches in `out`. */
void hn_driver_key_for_bundle(hn_str record, hn_strbuf *out);
/* What `henry cache why BUNDLE` says: appends a line for each field in which the program's key
 * differs from what this machine would use with these options; where none does, what the fields
 * are. Graph and weights are not compared.
 * Errors: those of opening the bundle; not-found when it records no key. */
hn_status hn_driver_why_bundle(const char *path, const hn_compile_options *options,
                               hn_strbuf *out) HN_MUST_USE;

/* What `henry cache why MODEL` says: appends a line for each field in which the nearest stored
 * program differs from what this model and these options ask for. Errors: those of opening the
 * model, not-found when nothing is stored. */
hn_status hn_driver_why(const char *path, const hn_compile_options *options,
                        hn_strbuf *out) HN_MUST_USE;

#endif
