/* nearest.c: names compared by the number of edits: a letter put in, left out, exchanged, or two
 * neighbours swapped.
 * Source: the optimal string alignment distance, as git and most compilers use it for the same
 * purpose. */
#include "base/nearest.h"

#include <stdint.h>

enum { LONGEST = 96 }; /* of names; longer ones are not near to anything */

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

size_t hn_edit_distance(hn_str a, hn_str b) {
    size_t rows[3][LONGEST + 1]; /* of the table: the one before the last, the last, this one */
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    if (a.len > LONGEST || b.len > LONGEST) return SIZE_MAX;
    for (size_t j = 0; j <= b.len; j++) last[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            char x = lower(a.ptr[i - 1]), y = lower(b.ptr[j - 1]);
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b.ptr[j - 2]) && lower(a.ptr[i - 2]) == y)
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[b.len];
}

void hn_nearest_begin(hn_nearest *nearest, hn_str word) {
    /* A third of the letters may be wrong: what is further off is a guess. */
    *nearest = (hn_nearest){.word = word, .edits = (word.len < 3 ? 1 : word.len / 3) + 1};
}

void hn_nearest_offer(hn_nearest *nearest, hn_str name) {
    if (!nearest->word.len || !name.len) return;
    size_t edits = hn_edit_distance(nearest->word, name);
    if (edits >= nearest->edits || edits >= name.len) return;
    nearest->edits = edits;
    nearest->found = name;
}

const char *hn_nearest_text(const hn_nearest *nearest, char out[HN_NEAREST_TEXT_BYTES]) {
    out[0] = '\0';
    if (nearest->found.len)
        snprintf(out, HN_NEAREST_TEXT_BYTES, "; did you mean '" HN_STR_FMT "'?",
                 HN_STR_ARG(nearest->found));
    return out;
}
