/* nearest.h: the one name that somebody probably meant when they typed another one. Several names,
 * or a list of all: near.h. */
#ifndef HN_BASE_NEAREST_H
#define HN_BASE_NEAREST_H

#include "base/str.h"

/* Letters to insert, remove, replace or swap with the next one to turn one name into the other;
 * capitals count as small letters. SIZE_MAX when one is longer than 96 bytes. */
size_t hn_edit_distance(hn_str a, hn_str b);

/* Offer it every name that there is. */
typedef struct hn_nearest {
    hn_str word;  /* what was typed */
    hn_str found; /* the nearest name so far; empty: none is near */
    size_t edits; /* to turn one into the other */
} hn_nearest;

void hn_nearest_begin(hn_nearest *nearest, hn_str word);
/* `name` is borrowed. */
void hn_nearest_offer(hn_nearest *nearest, hn_str name);

enum { HN_NEAREST_TEXT_BYTES = 100 };
/* "; did you mean 'x'?", or "" when nothing is near. Returns `out`. */
const char *hn_nearest_text(const hn_nearest *nearest, char out[HN_NEAREST_TEXT_BYTES]);

#endif
