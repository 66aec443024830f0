/* graph_guards.h: what sizes a program takes, in bytes: the guards of an image, with what they are
 * made of. The graph cache lists the programs of a graph with them (cache/variants.h). */
#ifndef HN_DRIVER_GRAPH_GUARDS_H
#define HN_DRIVER_GRAPH_GUARDS_H

#include "base/hash.h"
#include "base/str.h"
#include "bundle/view.h"
#include "henry/module.h"

/* Appends the guards of an image, their expressions and symbols, and nothing else of it. Guards on
 * what only the data tells are left out. Errors: out-of-memory. */
hn_status hn_graph_guards_write(const hn_bundle *b, hn_strbuf *out) HN_MUST_USE;
/* The same for people: "input 0 dimension 2 % 4 == 0, ..."; "any size" for none. Errors: corrupt,
 * out-of-memory. */
hn_status hn_graph_guards_describe(hn_str guards, hn_strbuf *out) HN_MUST_USE;

/* The program of a table of variants whose guards these sizes satisfy: the default one before
 * others, older before younger. `inputs` NULL: the default one. `count`: of all inputs, or of the
 * tensors alone. One variant after the other is looked at. False: none. What is damaged takes no
 * sizes. */
bool hn_graph_guards_find(hn_str table, const hn_input_sizes *inputs, uint32_t count,
                          hn_digest *out_key);

#endif
