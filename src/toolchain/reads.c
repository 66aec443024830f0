/* reads.c: what the text and the flags of a job let a C or C++ compiler read.
 *
 * Headers are named by the compiler afterwards, and files that assembler reads by the assembler;
 * c_compile.c looks through the assembly of what was said here to read nothing. What nobody names
 * is what a text only asks for (__has_include) and what #embed reads. Both have to stand in the
 * text as such, or in parts: split by a continued line, a trigraph or digraph, or put together by
 * "##". So the text is looked through as it is and without its continued lines, and where it has
 * "##" for the part that such a word would have to begin with. */
#include "toolchain/c.h"

#include "toolchain/flags.h"

#include <stdlib.h>
#include <strings.h>

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\v' || *at == '\f')) at++;
    return at;
}

/* What the directive whose '#' ends at `at` reads. One that hides its word may be an #embed. */
static hn_toolchain_reads directive_reads(const char *at, const char *end) {
    at = skip_blanks(at, end);
    hn_str rest = {at, (size_t)(end - at)};
    if (hn_str_starts_with(rest, HN_STR("embed"))) return HN_READS_FILES;
    if (hn_str_starts_with(rest, HN_STR("include")) || hn_str_starts_with(rest, HN_STR("import")))
        return HN_READS_HEADERS;
    while (at < end && *at >= 'a' && *at <= 'z') at++;
    /* spliced line, comment */
    bool is_hidden = at < end && (*at == '\\' || (at == rest.ptr && *at == '/'));
    return is_hidden ? HN_READS_FILES : HN_READS_NOTHING;
}

/* As memmem, by a byte of the word that texts seldom have: all of a text is looked through several
 * times for each job. */
static bool has_word(hn_str text, const char *word, size_t rare) {
    const size_t len = strlen(word);
    if (text.len < len) return false;
    const char *end = text.ptr + text.len - (len - 1 - rare);
    for (const char *at = text.ptr + rare; (at = memchr(at, word[rare], (size_t)(end - at))); at++)
        if (memcmp(at - rare, word, len) == 0) return true;
    return false;
}

static bool is_name_char(char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Whether a name of the text is what "__has_include" begins with: "_", "__", "__h", "__ha" or
 * "__has". */
static bool has_part_of_question(hn_str text) {
    static const char whole[] = "__has";
    const char *end = text.ptr + text.len, *at = text.ptr;
    for (; at < end && (at = memchr(at, '_', (size_t)(end - at))); at++) {
        if (at > text.ptr && is_name_char(at[-1])) continue;
        size_t len = 0;
        while (at + len < end && is_name_char(at[len])) len++;
        if (len < sizeof(whole) && memcmp(at, whole, len) == 0) return true;
    }
    return false;
}

typedef struct findings {
    hn_toolchain_reads worst;
    bool has_paste; /* "##" */
} findings;

/* It may find more than is true, which costs only the cache. */
static void look(hn_str text, findings *out) {
    static const struct {
        const char *word;
        size_t rare;
        hn_toolchain_reads reads;
    } odd[] = {{"%:", 0, HN_READS_FILES},
               {"?"
                "?=",
                0, HN_READS_FILES},
               {"?"
                "?/",
                0, HN_READS_FILES},
               {"__has_", 2, HN_READS_FILES},
               {"incbin", 3, HN_READS_HEADERS},
               {".include", 0, HN_READS_HEADERS}};
    if (!text.len) return;
    const char *end = text.ptr + text.len;
    for (const char *at = text.ptr; (at = memchr(at, '#', (size_t)(end - at)));) {
        hn_toolchain_reads reads = directive_reads(++at, end);
        if (reads > out->worst) out->worst = reads;
        out->has_paste |= at < end && *at == '#';
    }
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        if (odd[i].reads > out->worst && has_word(text, odd[i].word, odd[i].rare))
            out->worst = odd[i].reads;
}

/* The end of the continuation of a line whose backslash is at `at`; NULL: it is none. */
static const char *splice_end(const char *at, const char *end) {
    at = skip_blanks(at + 1, end);
    if (at < end && *at == '\r') at++;
    return at < end && *at == '\n' ? at + 1 : NULL;
}

/* Looks at the text as one whose continued lines are joined, if there are such. */
static void look_joined(hn_str text, findings *out) {
    const char *end = text.ptr + text.len, *rest = text.ptr, *next;
    char *joined = NULL;
    size_t len = 0;
    for (const char *at = text.ptr; at < end && (at = memchr(at, '\\', (size_t)(end - at))); at++) {
        if (!(next = splice_end(at, end))) continue;
        if (!joined && !(joined = malloc(text.len))) {
            out->worst = HN_READS_FILES;
            return;
        }
        memcpy(joined + len, rest, (size_t)(at - rest));
        len += (size_t)(at - rest);
        rest = next;
        at = next - 1;
    }
    if (!joined) return;
    memcpy(joined + len, rest, (size_t)(end - rest));
    look((hn_str){joined, len + (size_t)(end - rest)}, out);
    free(joined);
}

static bool can_ask_in_parts(hn_str text, hn_str flags) {
    const char *item;
    bool can = has_part_of_question(text);
    while (!can && hn_list_next(&flags, &item)) can = has_part_of_question(hn_str_of(item));
    return can;
}

hn_toolchain_reads hn_job_reads(hn_str text, hn_str flags, hn_flag_user user) {
    const char *item;
    findings found = {HN_READS_NOTHING, false};
    look(text, &found);
    look_joined(text, &found);
    for (hn_str rest = flags; hn_list_next(&rest, &item);) {
        hn_flag_kind kind = hn_flag_kind_of(item, user);
        if (kind >= HN_FLAG_FILES) return HN_READS_FILES;
        if (kind == HN_FLAG_HEADERS && found.worst < HN_READS_HEADERS)
            found.worst = HN_READS_HEADERS;
        if (strchr(item, '=')) look(hn_str_of(item), &found); /* the text of a macro */
    }
    return found.has_paste && can_ask_in_parts(text, flags) ? HN_READS_FILES : found.worst;
}

hn_toolchain_reads hn_c_reads(hn_str text, hn_str flags) {
    return hn_job_reads(text, flags, HN_FLAGS_CC);
}

bool hn_text_may_assemble(hn_str text, hn_str flags) {
    const char *item;
    bool may = has_word(text, "asm", 2) || has_word(text, "##", 0) || has_word(text, "\\", 0);
    while (!may && hn_list_next(&flags, &item)) may = strstr(item, "asm") || strstr(item, "##");
    return may;
}

bool hn_assembly_may_read(hn_str assembly) {
    static const char *const words[] = {"incbin", "include", "macro", "irp"};
    const char *end = assembly.ptr + assembly.len;
    for (const char *at = assembly.ptr; at < end && (at = memchr(at, '.', (size_t)(end - at)));
         at++)
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            size_t len = strlen(words[i]);
            if ((size_t)(end - at) > len && strncasecmp(at + 1, words[i], len) == 0) return true;
        }
    return false;
}
