/* options.h: the options of a compilation, as the compiler may read them.
 *
 * The compiler reads an option through HN_OPT, which notes it. One table (options.c) says of each
 * option how the key of the graph cache covers it. At the end of a compilation that is to be
 * cached, whatever was read and is not covered is an error under HENRY_CACHE_CHECK=1, and else
 * keeps the program out of the cache: a new option that nobody thought of cannot give a wrong
 * hit. */
#ifndef HN_DRIVER_OPTIONS_H
#define HN_DRIVER_OPTIONS_H

#include "base/str.h"
#include "codegen/codegen.h"
#include "henry/program.h"

typedef enum hn_option_class {
    HN_OPTION_KEYED,    /* its value is a field of the key */
    HN_OPTION_GUARDED,  /* what it decides is told by the guards of the program */
    HN_OPTION_UNCACHED, /* a compilation that has it uses no graph cache */
    HN_OPTION_FREE      /* cannot change the program; `why` says why not */
} hn_option_class;

typedef struct hn_options hn_options;

typedef struct hn_option_marks {
    uint64_t read; /* bit k: row k was read */
    size_t stray;  /* offset + 1 of an option that was read and has no row; 0: none */
} hn_option_marks;

typedef struct hn_option_row {
    const char *name;
    size_t offset, bytes; /* in hn_compile_options */
    hn_option_class option_class;
    const char *field; /* of KEYED: in the key record */
    void (*put)(const hn_options *options, const char *field, hn_strbuf *record);
    const char *why;
} hn_option_row;

enum { HN_OPTION_ROWS_MAX = 64 };

struct hn_options {
    const hn_compile_options *given; /* read it through HN_OPT only */
    const hn_target *const *targets; /* that target came to, for the key; borrowed */
    uint32_t target_count;
    const hn_option_row *rows; /* hn_option_rows, but in tests */
    uint32_t row_count;
    hn_option_marks *marks; /* borrowed */
};

/* The value of an option; that it was read is noted. */
#define HN_OPT(options, name)                                                                      \
    (hn_options_note((options), offsetof(hn_compile_options, name)), (options)->given->name)

const hn_option_row *hn_option_rows(uint32_t *out_count);
void hn_options_init(hn_options *options, const hn_compile_options *given, hn_option_marks *marks);
/* Values that no compilation can take. NULL is fine. Errors: invalid-argument. */
hn_status hn_options_validate(const hn_compile_options *options) HN_MUST_USE;
void hn_options_note(const hn_options *options, size_t offset);
/* The number of threads that a program is planned for. */
uint32_t hn_options_threads(const hn_options *options);
/* Forms that the user names, or "": of the options, or HENRY_FORM. Borrowed. */
const char *hn_options_forms(const hn_options *options);
/* CPUs that this process may use, 1 or more. */
uint32_t hn_driver_cpu_count(void);
/* Whether an option is given that keeps the graph cache out. */
bool hn_options_uncached(const hn_options *options);
/* Appends a field for each row that is KEYED. */
void hn_options_key(const hn_options *options, hn_strbuf *record);
/* Errors: internal, naming an option that was read and is not covered by the key `record`. */
hn_status hn_options_check(const hn_options *options, hn_str record) HN_MUST_USE;
/* Whether HENRY_CACHE_CHECK asks that such an error ends the compilation. */
bool hn_cache_check_is_on(void);

#endif
