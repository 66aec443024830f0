/* flags.c: whether a flag is one of the table's (flags.def). See flags.h.
 *
 * A row has a name and a form. The name is the whole flag (form NONE) or what stands before its
 * value. Another flag that is allowed is a row, or a name in one of the two lists of names below.
 * Tests have hostile spellings of each kind. */
#include "toolchain/flags.h"

#include "base/compiler.h"
#include "toolchain/toolchain.h"

#include <string.h>

typedef enum value_form {
    NONE,    /* the name alone */
    NUMBER,  /* digits */
    WORD,    /* letters, digits and "._+-", which begins with a letter or digit */
    WORDS,   /* several of them, with ",:=!" between and before them */
    BOOL,    /* true or false */
    MACRO,   /* NAME, NAME=TEXT, NAME(...)=TEXT */
    NAME,    /* an identifier */
    PATH,    /* of a directory, absolute */
    FILE_,   /* of a file, absolute */
    TEXT,    /* anything printable */
    WARNING, /* the name of a warning; nothing, or letters, digits, "+-=" */
    PARAM,   /* NAME=NUMBER */
    F_NAME,  /* one of f_names, after "no-" or not */
    M_NAME,  /* one of m_names, after "no-" or not */
    CC_FLAGS,
    PTXAS_FLAGS,
    CUDAFE_FLAGS, /* flags for another program, with commas between them */
} value_form;

enum {
    CC = HN_FLAGS_CC,
    NVCC = HN_FLAGS_NVCC,
    NVRTC = HN_FLAGS_NVRTC,
    CUDA = NVCC | NVRTC,
    PTXAS = HN_FLAGS_PTXAS,
    CUDAFE = HN_FLAGS_CUDAFE,
    OPENCL = HN_FLAGS_OPENCL
};

/* Options of the kind -fNAME and -fno-NAME that change the code or the messages and nothing else.
 * Not here: what writes files (dump-*, profile-*, test-coverage, stack-usage, save-*,
 * callgraph-info, time-trace), reads them (profile-use, modules, pch-*, preprocessed) or tells
 * where the compilation took place (working-directory, record-gcc-switches). */
static const char f_names[] =
    " PIC PIE pic pie plt access-control aggressive-loop-optimizations align-functions align-jumps align-labels align-loops aligned-new"
    " allocation-dce allow-store-data-races analyzer approx-func asm assumptions associative-math asynchronous-unwind-tables"
    " auto-inc-dec bit-tests blocks branch-count-reg builtin caller-saves caret-diagnostics cf-protection char8_t check-data-deps"
    " check-new code-hoisting color-diagnostics combine-stack-adjustments common compare-elim complete-member-pointers concepts"
    " cond-mismatch conserve-stack constexpr-fp-except coroutines cprop-registers crossjumping cse-follow-jumps cse-skip-blocks"
    " cx-fortran-rules cx-limited-range data-sections dce debug-macro debug-types-section declone-ctor-dtor deduce-init-list"
    " default-inline defer-pop delayed-branch delayed-template-parsing delete-dead-exceptions delete-null-pointer-checks"
    " devirtualize devirtualize-speculatively diagnostics-color diagnostics-generate-patch diagnostics-parseable-fixits"
    " diagnostics-plain-output diagnostics-show-caret diagnostics-show-cwe diagnostics-show-hotness diagnostics-show-labels"
    " diagnostics-show-line-numbers diagnostics-show-option diagnostics-show-path-depths diagnostics-show-template-tree"
    " dollars-in-identifiers dse early-inlining elide-constructors elide-type eliminate-unused-debug-symbols"
    " eliminate-unused-debug-types emit-class-debug-always enforce-eh-specs exceptions expensive-optimizations"
    " ext-numeric-literals extended-identifiers extern-tls-init fast-math finite-loops finite-math-only float-store"
    " fold-simple-inlines force-addr forward-propagate fp-int-builtin-inexact freestanding function-cse function-sections gcse"
    " gcse-after-reload gcse-las gcse-lm gcse-sm gnu-keywords gnu-unique gnu89-inline graphite graphite-identity"
    " guess-branch-probability harden-compares harden-conditional-branches hoist-adjacent-loads honor-infinities honor-nans"
    " hosted ident if-conversion if-conversion2 implement-inlines implicit-constexpr implicit-inline-templates"
    " implicit-templates indirect-inlining inhibit-size-directive inline inline-atomics inline-functions"
    " inline-functions-called-once inline-hint-functions inline-small-functions instrument-functions ipa-bit-cp ipa-cp"
    " ipa-cp-clone ipa-icf ipa-icf-functions ipa-icf-variables ipa-modref ipa-profile ipa-pta ipa-pure-const ipa-ra"
    " ipa-reference ipa-reference-addressable ipa-sra ipa-stack-alignment ipa-strict-aliasing ipa-vrp ira-hoist-pressure"
    " ira-loop-pressure ira-share-save-slots ira-share-spill-slots isolate-erroneous-paths-attribute"
    " isolate-erroneous-paths-dereference ivopts jump-tables keep-gc-roots-live keep-inline-functions keep-static-consts"
    " keep-static-functions large-source-files lax-vector-conversions leading-underscore lifetime-dse limit-debug-info"
    " live-range-shrinkage loop-block loop-interchange loop-nest-optimize loop-parallelize-all loop-strip-mine"
    " loop-unroll-and-jam lra-remat math-errno merge-all-constants merge-constants merge-debug-strings modulo-sched"
    " modulo-sched-allow-regmoves move-loop-invariants move-loop-stores ms-extensions new-inheriting-ctors new-ttp-matching"
    " non-call-exceptions nonansi-builtins nonnull-objects nothrow-opt omit-frame-pointer openmp-simd operator-names"
    " optimize-sibling-calls optimize-strlen optional-diags pack-struct partial-inlining pcc-struct-return peel-loops peephole"
    " peephole2 permissive plan9-extensions predictive-commoning prefetch-loop-arrays pretty-templates printf-return-value"
    " reciprocal-math ree reg-struct-return rename-registers reorder-blocks reorder-blocks-and-partition reorder-functions"
    " rerun-cse-after-loop reroll-loops reschedule-modulo-scheduled-loops rounding-math rtti sanitize-address-use-after-scope"
    " sanitize-recover sanitize-undefined-trap-on-error sched-critical-path-heuristic sched-dep-count-heuristic"
    " sched-group-heuristic sched-interblock sched-last-insn-heuristic sched-pressure sched-rank-heuristic sched-spec"
    " sched-spec-insn-heuristic sched-spec-load sched-spec-load-dangerous sched-stalled-insns sched-stalled-insns-dep"
    " sched2-use-superblocks schedule-fusion schedule-insns schedule-insns2 section-anchors sel-sched-pipelining"
    " sel-sched-pipelining-outer-loops sel-sched-reschedule-pipelined selective-scheduling selective-scheduling2"
    " semantic-interposition short-enums short-wchar show-column shrink-wrap shrink-wrap-separate signaling-nans"
    " signed-bitfields signed-char signed-zeros single-precision-constant sized-deallocation slp-vectorize spell-checking"
    " split-ivs-in-unroller split-loops split-paths split-wide-types split-wide-types-early ssa-backprop ssa-phiopt stack-check"
    " stack-clash-protection stack-protector stack-protector-all stack-protector-explicit stack-protector-strong"
    " standalone-debug stdarg-opt store-merging strict-aliasing strict-enums strict-flex-arrays strict-float-cast-overflow"
    " strict-overflow strict-return strict-volatile-bitfields strict-vtable-pointers strong-eval-order sync-libcalls"
    " thread-jumps threadsafe-statics toplevel-reorder tracer track-macro-expansion trampolines trapping-math trapv"
    " tree-bit-ccp tree-builtin-call-dce tree-ccp tree-ch tree-coalesce-vars tree-copy-prop tree-cselim tree-dce"
    " tree-dominator-opts tree-dse tree-forwprop tree-fre tree-loop-distribute-patterns tree-loop-distribution"
    " tree-loop-if-convert tree-loop-im tree-loop-ivcanon tree-loop-linear tree-loop-optimize tree-loop-vectorize"
    " tree-partial-pre tree-phiprop tree-pre tree-pta tree-reassoc tree-scev-cprop tree-sink tree-slp-vectorize tree-slsr"
    " tree-sra tree-switch-conversion tree-tail-merge tree-ter tree-vectorize tree-vrp unconstrained-commons unit-at-a-time"
    " unroll-all-loops unroll-loops unsafe-math-optimizations unsigned-bitfields unsigned-char unswitch-loops unwind-tables"
    " use-cxa-atexit use-cxa-get-exception-ptr use-init-array var-tracking var-tracking-assignments var-tracking-uninit"
    " variable-expansion-in-unroller vect-cost-model vectorize verbose-asm version-loops-for-strides visibility-inlines-hidden"
    " visibility-ms-compat vpt weak web whole-program wrapv wrapv-pointer zero-initialized-in-bss zvector ";

/* Options of the kind -mNAME and -mno-NAME: features of processors and choices of code, as gcc 14
 * and clang 18 have them for x86-64, and a few for 64-bit ARM. */
static const char m_names[] =
    " 128bit-long-double 3dnow 3dnowa 64 80387 8bit-idiv abm accumulate-outgoing-args adx aes align-double align-stringops amx-avx512"
    " amx-bf16 amx-complex amx-fp16 amx-fp8 amx-int8 amx-movrs amx-tf32 amx-tile amx-transpose apxf avx avx10.1 avx10.1-256"
    " avx10.1-512 avx10.2 avx10.2-256 avx10.2-512 avx2 avx256-split-unaligned-load avx256-split-unaligned-store avx5124fmaps"
    " avx5124vnniw avx512bf16 avx512bitalg avx512bw avx512cd avx512dq avx512er avx512f avx512fp16 avx512ifma avx512pf"
    " avx512vbmi avx512vbmi2 avx512vl avx512vnni avx512vp2intersect avx512vpopcntdq avxifma avxneconvert avxvnni avxvnniint16"
    " avxvnniint8 bmi bmi2 call-ms2sysv-xlogues cet-switch cld cldemote clflushopt clwb clzero cmpccxadd cx16 crc32"
    " daz-ftz direct-extern-access enqcmd evex512 f16c fancy-math-387 fentry fma fma4 fix-cortex-a53-835769"
    " fix-cortex-a53-843419 force-drap force-indirect-call fp-ret-in-387 fsgsbase fxsr gather general-regs-only gfni hard-float"
    " hle hreset ieee-fp implicit-float indirect-branch-cs-prefix indirect-branch-register inline-all-stringops"
    " inline-stringops-dynamically invpcid kl lam long-double-128 long-double-64 long-double-80 low-precision-div"
    " low-precision-recip-sqrt low-precision-sqrt lvi-cfi lvi-hardening lwp lzcnt manual-endbr mmx movbe movdir64b movdiri movrs"
    " ms-bitfields mwait mwaitx needed nop-mcount omit-leaf-frame-pointer outline outline-atomics pc32 pc64 pc80 pclmul"
    " pconfig pku popcnt prefer-avx128 prefer-avx256 prefetchi prefetchwt1 prfchw ptwrite push-args raoint rdpid rdpru rdrnd"
    " rdseed recip record-mcount record-return red-zone relax-cmpxchg-loop retpoline retpoline-external-thunk rtd rtm sahf"
    " scatter serialize seses sgx sha sha512 shstk skip-rax-setup sm3 sm4 soft-float speculative-load-hardening sse sse2"
    " sse2avx sse3 sse4 sse4.1 sse4.2 sse4a sseregparm ssse3 stack-arg-probe stackrealign strict-align stv tbm"
    " tls-direct-seg-refs tsxldtrk uintr unroll-only-small-loops usermsr vaes vpclmulqdq vzeroupper waitpkg wbnoinvd widekl"
    " xop xsave xsavec xsaveopt xsaves ";

typedef struct flag_row {
    const char *name;
    unsigned char form, users, kind;
} flag_row;

#define PURE    HN_FLAG_PURE
#define DRIVER  HN_FLAG_DRIVER
#define HEADERS HN_FLAG_HEADERS
#define FILES   HN_FLAG_FILES

static const flag_row rows[] = {
#define X(name, form, users, kind) {name, form, users, kind},
#include "toolchain/flags.def"
#undef X
};

/* ---- values ---- */

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

static bool has_only(const char *text, const char *allowed) {
    return text[strspn(text, allowed)] == 0;
}

static bool is_alnum(char c) { return c && strchr(LETTERS DIGITS, c); }

static bool is_listed(const char *names, const char *name) {
    size_t len = strlen(name);
    for (const char *at = names; len && (at = strstr(at, name)); at++)
        if (at[-1] == ' ' && at[len] == ' ') return true;
    return false;
}

/* Names of processors and features have no sign of a list; "armv8-a+native" means this machine
 * too. */
static bool is_word(const char *value) {
    return is_alnum(value[0]) && has_only(value, LETTERS DIGITS "._+-") && !strstr(value, "native");
}

static bool is_macro(const char *value) {
    size_t len = strspn(value, LETTERS DIGITS "_");
    if (!len || strchr(DIGITS, value[0])) return false;
    return !value[len] || value[len] == '=' || (value[len] == '(' && strchr(value, ')'));
}

static bool is_param(const char *value) {
    size_t len = strspn(value, LETTERS DIGITS "-");
    return len && value[len] == '=' && value[len + 1] && has_only(value + len + 1, DIGITS);
}

static bool is_name_of(const char *names, const char *value) {
    return is_listed(names, value) ||
           (strncmp(value, "no-", 3) == 0 && is_listed(names, value + 3));
}

/* nvcc takes "-I/x" and "-I=/x", and a list with commas. */
static const char *path_of(const char *value, hn_flag_user user) {
    if (user != HN_FLAGS_CC && value[0] == '=') value++;
    return value[0] == '/' && (user == HN_FLAGS_CC || !strchr(value, ',')) ? value : NULL;
}

/* The kind of the worst of the flags in a list with commas. */
static hn_flag_kind worst_of(const char *words, hn_flag_user user, hn_flag_kind least) {
    char word[256];
    do {
        size_t len = strcspn(words, ",");
        if (len >= sizeof(word)) return HN_FLAG_REFUSED;
        memcpy(word, words, len);
        word[len] = 0;
        hn_flag_kind kind = hn_flag_kind_of(word, user);
        if (kind > least) least = kind;
        words += len + (words[len] != 0);
    } while (*words);
    return least;
}

static bool is_value_of(value_form form, const char *value, hn_flag_user user) {
    switch (form) {
    case NONE: return !*value;
    case NUMBER: return *value && has_only(value, DIGITS);
    case WORD: return is_word(value);
    case WORDS:
        return *value && has_only(value, LETTERS DIGITS "._+-,:=!") && !strstr(value, "native");
    case BOOL: return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    case MACRO: return is_macro(value);
    case NAME: return *value && !strchr(DIGITS, value[0]) && has_only(value, LETTERS DIGITS "_");
    case PATH:
    case FILE_: return path_of(value, user) != NULL;
    case TEXT: return *value;
    case WARNING: return has_only(value, LETTERS DIGITS "+-=");
    case PARAM: return is_param(value);
    case F_NAME: return is_name_of(f_names, value);
    case M_NAME: return is_name_of(m_names, value);
    case CC_FLAGS:
    case PTXAS_FLAGS:
    case CUDAFE_FLAGS: return *value;
    }
    return false;
}

/* ---- the table ---- */

/* What stands behind the name of a row; NULL: another flag. */
static const char *value_of(const flag_row *row, const char *flag, hn_flag_user user) {
    if (!(row->users & (unsigned)user)) return NULL;
    if (user != HN_FLAGS_CC && strncmp(flag, "--", 2) == 0 && strncmp(row->name, "--", 2) != 0)
        flag++;
    size_t len = strlen(row->name);
    return strncmp(flag, row->name, len) == 0 ? flag + len : NULL;
}

/* The row of a flag; NULL: none takes it. `out_named`: the longest row with a name that it begins
 * with, if any. */
static const flag_row *find_row(const char *flag, hn_flag_user user, const flag_row **out_named) {
    const flag_row *best = NULL;
    size_t best_len = 0, named_len = 0;
    *out_named = NULL;
    for (size_t i = 0; i < HN_COUNT_OF(rows); i++) {
        size_t len = strlen(rows[i].name);
        const char *value = value_of(&rows[i], flag, user);
        if (!value) continue;
        if (len > named_len) *out_named = &rows[i], named_len = len;
        if (len > best_len && is_value_of(rows[i].form, value, user))
            best = &rows[i], best_len = len;
    }
    return best;
}

static bool has_control(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) return true;
    return false;
}

bool hn_is_shell_safe(const char *text) {
    return text[0] != '~' && has_only(text, LETTERS DIGITS "_-+=.,/:@%");
}

hn_flag_kind hn_flag_kind_of(const char *flag, hn_flag_user user) {
    const flag_row *named, *row = find_row(flag, user, &named);
    if (!row || has_control(flag) || (user == HN_FLAGS_NVCC && !hn_is_shell_safe(flag)))
        return HN_FLAG_REFUSED;
    const char *value = value_of(row, flag, user);
    if (row->form == CC_FLAGS) return worst_of(value, HN_FLAGS_CC, (hn_flag_kind)row->kind);
    if (row->form == PTXAS_FLAGS) return worst_of(value, HN_FLAGS_PTXAS, (hn_flag_kind)row->kind);
    if (row->form == CUDAFE_FLAGS) return worst_of(value, HN_FLAGS_CUDAFE, (hn_flag_kind)row->kind);
    return (hn_flag_kind)row->kind;
}

bool hn_flags_have_level(hn_str flags) {
    const char *item;
    while (hn_list_next(&flags, &item))
        if (strncmp(item, "-O", 2) == 0 || strncmp(item + strspn(item, "-"), "optimize", 8) == 0)
            return true;
    return false;
}

/* ---- messages ---- */

static const char *advice_of(value_form form) {
    static const char *const advice[] = {
        [NUMBER] = "a whole number",
        [WORD] = "one word of letters, digits and '._+-'",
        [WORDS] = "words of letters, digits and '._+-' with commas between them",
        [BOOL] = "true or false",
        [MACRO] = "NAME or NAME=VALUE, in the same flag",
        [NAME] = "a name, in the same flag",
        [PARAM] = "NAME=NUMBER",
        [CC_FLAGS] = "flags that the C++ compiler may get, with commas between them",
        [PTXAS_FLAGS] = "flags of ptxas such as -O3, -v or -dlcm=ca",
        [CUDAFE_FLAGS] = "flags such as --diag_suppress=177",
    };
    return (size_t)form < HN_COUNT_OF(advice) ? advice[form] : NULL;
}

static const char *allowed_for(hn_flag_user user) {
    if (user == HN_FLAGS_NVCC)
        return "-O -g -G -D -U -I -isystem -include -std= -l -L, -lineinfo, --use_fast_math, --maxrregcount=, -Xcompiler=, -Xptxas= and other "
               "options of the code; architectures go into the target";
    if (user == HN_FLAGS_NVRTC)
        return "-D -U -I -std= -G, -lineinfo, --use_fast_math, --maxrregcount= and other options of the code; architectures go into the target";
    if (user == HN_FLAGS_OPENCL)
        return "-D -w -Werror -cl-std= and the other -cl- options of OpenCL 1.2";
    return "-O -g -D -U -I -isystem -include -std= -W -l -L, and -f and -m options that change nothing but the code";
}

static hn_status refuse_control(const char *flag) {
    hn_strbuf shown;
    hn_strbuf_init(&shown);
    hn_strbuf_clean(&shown, hn_str_of(flag), true);
    hn_status status =
        HN_ERROR(HN_INVALID_ARGUMENT,
                 "cannot compile with flag '" HN_STR_FMT "': it has a control character",
                 HN_STR_ARG(hn_strbuf_str(&shown)));
    hn_strbuf_deinit(&shown);
    return status;
}

static hn_status refuse(const char *flag, hn_flag_user user) {
    static const char failure[] = "cannot compile with flag";
    const flag_row *named, *row = find_row(flag, user, &named);
    const char *advice = named ? advice_of((value_form)named->form) : NULL;
    if (has_control(flag)) return refuse_control(flag);
    if (strstr(flag, "native"))
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "%s '%s': 'native' means this machine, and results are shared; name the processor",
            failure, flag);
    if (user == HN_FLAGS_NVCC && row && !hn_is_shell_safe(flag))
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "%s '%s': nvcc gives its flags to a shell, so only letters, digits and '_-+=.,/:@%%' are allowed",
            failure, flag);
    if (named && (named->form == PATH || named->form == FILE_))
        return HN_ERROR(
            HN_INVALID_ARGUMENT,
            "%s '%s': write '%s' and an absolute path as one flag; a job has no current directory",
            failure, flag, named->name);
    if (advice && strchr(named->name, '='))
        return HN_ERROR(HN_INVALID_ARGUMENT, "%s '%s': what follows '%s' must be %s", failure, flag,
                        named->name, advice);
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "%s '%s': it is not in the list of allowed flags: %s (docs/compile-service.md, \"Flags\")",
        failure, flag, allowed_for(user));
}

hn_status hn_flags_read(hn_str flags, hn_flag_user user, hn_tool_args *out,
                        hn_flag_kind *out_worst) {
    const char *item;
    *out_worst = HN_FLAG_PURE;
    while (hn_list_next(&flags, &item)) {
        hn_flag_kind kind = hn_flag_kind_of(item, user);
        if (kind == HN_FLAG_REFUSED) return refuse(item, user);
        if (kind > *out_worst) *out_worst = kind;
        if (out) hn_tool_args_add(out, item);
    }
    return NULL;
}

void hn_flags_dirs(hn_str flags, hn_flag_user user, hn_strbuf *dirs) {
    const char *item;
    while (hn_list_next(&flags, &item)) {
        const flag_row *named, *row = find_row(item, user, &named);
        if (row && row->form == PATH && row->kind == HN_FLAG_HEADERS)
            hn_list_add(dirs, path_of(value_of(row, item, user), user));
    }
}
