/* near.c: names near to a mistyped one, by edit distance. */
#include "base/near.h"

#include "base/nearest.h"

#include <string.h>

enum { SUGGESTIONS = 3, LISTED = 8 };

typedef struct suggestion {
    const char *name;
    size_t distance;
} suggestion;

/* Keeps the nearest, in the order of their distance. */
static void keep(suggestion *kept, const char *name, size_t distance) {
    uint32_t at = SUGGESTIONS;
    while (at > 0 && (!kept[at - 1].name || kept[at - 1].distance > distance)) at--;
    if (at == SUGGESTIONS) return;
    memmove(&kept[at + 1], &kept[at], (SUGGESTIONS - 1 - at) * sizeof *kept);
    kept[at] = (suggestion){name, distance};
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

void hn_near_print(hn_strbuf *out, const char *wanted, uint32_t count, hn_near_name name_at,
                   const void *user) {
    suggestion kept[SUGGESTIONS] = {{NULL, 0}};
    const size_t limit = 1 + strlen(wanted) / 4;
    for (uint32_t k = 0; k < count; k++) {
        const char *name = name_at(user, k);
        size_t distance =
            name && *name ? hn_edit_distance(hn_str_of(wanted), hn_str_of(name)) : SIZE_MAX;
        if (distance <= limit) keep(kept, name, distance);
    }
    if (!kept[0].name) {
        print_list(out, count, name_at, user);
        return;
    }
    for (uint32_t k = 0; k < SUGGESTIONS && kept[k].name; k++)
        hn_strbuf_printf(out, "%s'%s'",
                         !k                                        ? "did you mean "
                         : k + 1 < SUGGESTIONS && kept[k + 1].name ? ", "
                                                                   : " or ",
                         kept[k].name);
    hn_strbuf_putc(out, '?');
}
