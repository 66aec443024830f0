/* c_flags.c: what the flags and the text of a job let a C or C++ compiler read. */
#include "toolchain/c.h"

static bool starts(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The prefix that `flag` starts with; NULL when it is none of the list. */
static const char *prefix_of(const char *flag, const char *const *prefixes) {
    for (; *prefixes; prefixes++)
        if (starts(flag, *prefixes)) return *prefixes;
    return NULL;
}

static const char *const header_flags[] = {"-isystem", "-iquote", "-idirafter", "-include", "-I", NULL};

/* ---- flags that no job may have ---- */

/* Whether `text` is one of the words, the beginning of one (linkers take abbreviations), or begins with one. */
static bool is_like(const char *text, const char *const *words) {
    size_t len = strcspn(text, "=");
    for (; *words; words++) {
        size_t word_len = strlen(*words), least = len < word_len ? len : word_len;
        if (least > 1 && strncmp(text, *words, least) == 0) return true;
    }
    return false;
}

/* What a linker is told: "-o", "-Map=F", "--plugin". */
static bool is_linker_escape(const char *word) {
    static const char *const words[] = {"output", "out-implib", "Map",        "dependency-file", "plugin", "error-handling-script",
                                        "reproduce", "time-trace", "save-temps", NULL};
    if (word[0] == '@' || starts(word, "-o")) return true;
    return word[0] == '-' && is_like(word + 1 + (word[1] == '-'), words);
}

/* What an assembler is told: "-o", "--MD", a listing in a file: "-aln=F". */
static bool is_assembler_escape(const char *word) {
    return word[0] == '@' || starts(word, "-o") || starts(word, "--M") || (starts(word, "-a") && strchr(word, '='));
}

static bool is_preprocessor_escape(const char *word) { return word[0] != '-' || hn_c_flag_escapes(word); }

bool hn_flag_words_escape(const char *words, bool (*is_escape)(const char *word)) {
    char word[256];
    while (*words) {
        size_t len = strcspn(words, ", \t\n"); /* nvcc's go through a shell */
        snprintf(word, sizeof(word), "%.*s", len < sizeof(word) ? (int)len : (int)sizeof(word) - 1, words);
        if (is_escape(word)) return true;
        words += len + (words[len] != 0);
    }
    return false;
}

bool hn_linker_words_escape(const char *words) { return hn_flag_words_escape(words, is_linker_escape); }

/* Everything after "-X..." is another argument, which nobody would look at: "-Wl," and the like do the same. */
bool hn_c_flag_escapes(const char *flag) {
    static const char *const outputs[] = {"-M", "-o", "-x", "-save", "--save", "--output", "-aux-info", "-dump", "--dump", "-time=",
                                          "-working-directory", "--working-directory", "-fprofile-generate=", "-fprofile-dir",
                                          "-fprofile-note", "-fprofile-instr-generate=", "-fcs-profile-generate=",
                                          "-fmemory-profile=", "-foptimization-record-file", "-ftime-trace=",
                                          "-fproc-stat-report", "-fcrash-diagnostics-dir", "-fdiagnostics-add-output",
                                          "-fdiagnostics-set-output", "-fmodule-output", "-fmodules-cache-path", NULL};
    static const char *const code[] = {"-fplugin", "-fpass-plugin", "-iplugindir", "-specs", "--specs", "-B", "--prefix", "-wrapper",
                                       "-load", "-X", "-fmodule-mapper", "--ld-path", "--config", "-ccc-", NULL};
    static const char *const longs[] = {"--compile", "--assemble", "--preprocess", "--dependencies", "--user-dependencies",
                                        "--write-", "--language", NULL};
    if (prefix_of(flag, outputs) || prefix_of(flag, code) || prefix_of(flag, longs)) return true;
    if (starts(flag, "-fuse-ld=")) return strchr(flag, '/') != NULL;
    if (starts(flag, "-fdump") || starts(flag, "-fopt-info")) return strchr(flag, '=') != NULL;
    if (starts(flag, "-Wl,")) return hn_linker_words_escape(flag + 4);
    if (starts(flag, "-Wa,")) return hn_flag_words_escape(flag + 4, is_assembler_escape);
    return starts(flag, "-Wp,") && hn_flag_words_escape(flag + 4, is_preprocessor_escape);
}

hn_flag_kind hn_c_flag_kind(const char *flag) {
    static const char *const driver[] = {"-fopenmp", "-l", "-pthread", NULL};
    static const char *const files[] = {"-fprofile", "-fauto-profile", "-fsanitize", "-flto",   "-fuse-ld", "-fdump",
                                        "-ftest",    "-fmodule",       "-fpch",      "-fsave",  "-fstack-u", "-fcallg",
                                        "-fopt-info", "-Wl,",          "-Wa,",       "-Wp,",    "-mllvm",   NULL};
    static const char *const pure[] = {"-O", "-f", "-m",    "-D",        "-U", "-W",
                                       "-w", "-g", "-std=", "-pedantic", NULL};
    size_t len = strlen(flag);
    bool is_native = starts(flag, "-m") && len > 7 && strcmp(flag + len - 7, "=native") == 0;
    bool is_output = strcmp(flag, "-c") == 0 || strcmp(flag, "-S") == 0 || strcmp(flag, "-E") == 0;
    if (flag[0] != '-' || !flag[1] || is_native || is_output || hn_c_flag_escapes(flag)) return HN_FLAG_REFUSED;
    if (prefix_of(flag, driver)) return HN_FLAG_DRIVER;
    if (prefix_of(flag, files)) return HN_FLAG_FILES;
    if (prefix_of(flag, header_flags)) return HN_FLAG_HEADERS;
    bool is_bare = len == 2 && (flag[1] == 'D' || flag[1] == 'U'); /* its value would be another argument */
    return prefix_of(flag, pure) && !is_bare ? HN_FLAG_PURE : HN_FLAG_FILES;
}

hn_status hn_c_flags_read(hn_str flags, hn_tool_args *out, hn_flag_kind *out_worst) {
    const char *item;
    *out_worst = HN_FLAG_PURE;
    while (hn_list_next(&flags, &item)) {
        hn_flag_kind kind = hn_c_flag_kind(item);
        if (kind == HN_FLAG_REFUSED)
            return HN_ERROR(
                HN_INVALID_ARGUMENT,
                "cannot compile with flag '%s': it names a file, another kind of output, code to load, or this machine",
                item);
        const char *prefix = kind == HN_FLAG_HEADERS ? prefix_of(item, header_flags) : NULL;
        if (prefix && item[strlen(prefix)] != '/')
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "cannot compile with flag '%s': write '%s' and an absolute path as one flag; a "
                            "job has no current "
                            "directory",
                            item, prefix);
        if (kind > *out_worst) *out_worst = kind;
        hn_tool_args_add(out, item);
    }
    return NULL;
}

void hn_c_flags_dirs(hn_str flags, hn_strbuf *dirs) {
    const char *item;
    while (hn_list_next(&flags, &item)) {
        const char *prefix = prefix_of(item, header_flags);
        if (prefix && strcmp(prefix, "-include") != 0) hn_list_add(dirs, item + strlen(prefix));
    }
}

/* ---- the text ---- */

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
    bool is_hidden = at < end && (*at == '\\' || (at == rest.ptr && *at == '/')); /* spliced line, comment */
    return is_hidden ? HN_READS_FILES : HN_READS_NOTHING;
}

/* As memmem, by a byte of the word that texts seldom have: all of a text is looked through several times for each job. */
static bool has_word(hn_str text, const char *word, size_t rare) {
    const size_t len = strlen(word);
    if (text.len < len) return false;
    const char *end = text.ptr + text.len - (len - 1 - rare);
    for (const char *at = text.ptr + rare; (at = memchr(at, word[rare], (size_t)(end - at))); at++)
        if (memcmp(at - rare, word, len) == 0) return true;
    return false;
}

/* By directive (also spelt with a digraph or trigraph), by assembler, or by asking for a file's presence. It
 * may say more than is true, which costs only the disk cache. */
static hn_toolchain_reads text_reads(hn_str text) {
    static const struct {
        const char *word;
        size_t rare;
    } odd[] = {{"%:", 0}, {"?" "?=", 0}, {"incbin", 3}, {".include", 0}, {"__has_", 2}};
    hn_toolchain_reads worst = HN_READS_NOTHING;
    if (!text.len) return worst;
    const char *end = text.ptr + text.len;
    for (const char *at = text.ptr; (at = memchr(at, '#', (size_t)(end - at)));) {
        hn_toolchain_reads reads = directive_reads(++at, end);
        if (reads > worst) worst = reads;
    }
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        if (has_word(text, odd[i].word, odd[i].rare)) return HN_READS_FILES;
    return worst;
}

hn_toolchain_reads hn_c_reads(hn_str text, hn_str flags) {
    const char *item;
    hn_toolchain_reads worst = text_reads(text);
    while (hn_list_next(&flags, &item)) {
        hn_flag_kind kind = hn_c_flag_kind(item);
        if (kind >= HN_FLAG_FILES) return HN_READS_FILES;
        if (kind == HN_FLAG_HEADERS && worst < HN_READS_HEADERS) worst = HN_READS_HEADERS;
    }
    return worst;
}
