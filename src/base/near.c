/* near.c: names near to a mistyped one, by edit distance. */
#include "base/near.h"

#include <string.h>

enum { LETTERS_MAX = 96, SUGGESTIONS = 3, LISTED = 8 };

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Letters to insert, remove, replace or swap with the next one. Source: the optimal string alignment distance. */
static uint32_t distance(const char *a, const char *b) {
    uint32_t before[LETTERS_MAX + 1], last[LETTERS_MAX + 1], now[LETTERS_MAX + 1];
    size_t rows = strlen(a), columns = strlen(b);
    if (rows > LETTERS_MAX || columns > LETTERS_MAX) return UINT32_MAX;
    for (uint32_t j = 0; j <= columns; j++) last[j] = j;
    for (uint32_t i = 1; i <= rows; i++) {
        now[0] = i;
        for (uint32_t j = 1; j <= columns; j++) {
            now[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = least(now[j], before[j - 2] + 1);
        }
        memcpy(before, last, sizeof before);
        memcpy(last, now, sizeof last);
    }
    return last[columns];
}

typedef struct suggestion {
    const char *name;
    uint32_t distance;
} suggestion;

/* Keeps the nearest, in the order of their distance. */
static void keep(suggestion *kept, const char *name, uint32_t far) {
    uint32_t at = SUGGESTIONS;
    while (at > 0 && (!kept[at - 1].name || kept[at - 1].distance > far)) at--;
    if (at == SUGGESTIONS) return;
    memmove(&kept[at + 1], &kept[at], (SUGGESTIONS - 1 - at) * sizeof *kept);
    kept[at] = (suggestion){name, far};
}

static void print_list(hn_strbuf *out, uint32_t count, hn_near_name name_at, const void *user) {
    uint32_t listed = 0;
    for (uint32_t k = 0; k < count; k++) {
        const char *name = name_at(user, k);
        if (!name || !*name) continue;
        if (listed == LISTED) {
            hn_strbuf_puts(out, ", ...");
            return;
        }
        hn_strbuf_printf(out, "%s'%s'", listed++ ? ", " : "there are: ", name);
    }
    if (!listed) hn_strbuf_puts(out, "there are none");
}

void hn_near_print(hn_strbuf *out, const char *wanted, uint32_t count, hn_near_name name_at, const void *user) {
    suggestion kept[SUGGESTIONS] = {{NULL, 0}};
    const uint32_t limit = 1 + (uint32_t)strlen(wanted) / 4;
    for (uint32_t k = 0; k < count; k++) {
        const char *name = name_at(user, k);
        uint32_t far = name && *name ? distance(wanted, name) : UINT32_MAX;
        if (far <= limit) keep(kept, name, far);
    }
    if (!kept[0].name) {
        print_list(out, count, name_at, user);
        return;
    }
    for (uint32_t k = 0; k < SUGGESTIONS && kept[k].name; k++)
        hn_strbuf_printf(out, "%s'%s'", !k ? "did you mean " : k + 1 < SUGGESTIONS && kept[k + 1].name ? ", " : " or ", kept[k].name);
    hn_strbuf_putc(out, '?');
}
