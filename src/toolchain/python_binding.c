/* python_binding.c: C++ text of a Python module whose functions call those of the user.
 *
 * The text stands behind the user's, so the user's lines keep their numbers; an error in entry K is
 * reported as "entries:K". It includes no header of Python's: the functions and structures below
 * are the part of the stable ABI that is needed, as version 3.9 has it. Their names carry a prefix
 * and the real name as an assembler label, so that a text which includes Python.h for itself does
 * not collide.
 *
 * METH_FASTCALL joined the stable ABI with Python 3.10; 3.7 to 3.9 call such functions in the same
 * way, but do not promise it to extensions built with the limited API. Source: the interpreter's
 * methodobject.h and its list of the stable ABI. Builds of Python without the GIL have an ABI of
 * their own and refuse the module. */
#include "toolchain/python.h"

#include "base/compiler.h"
#include "toolchain/toolchain.h"

#include <ctype.h>

enum { ARGUMENTS_MAX = 64, NAME_BYTES = 200 };

/* ---- the part that is the same for all modules ---- */

static const char runtime[] =
    "namespace henry_binding {\n"
    "struct object { long refs; object *type; };\n"
    "struct method { const char *name; void *call; int flags; const char *doc; };\n"
    "struct definition {\n"
    "    object base; void *init; long index; object *copy;\n"
    "    const char *name, *doc; long size; method *methods; void *slots, *traverse, *clear, *free;\n"
    "};\n"
    /* Not extern "C": two such functions of one name are one function, whatever their namespace. */
    "unsigned long type_flags(object *) __asm__(\"PyType_GetFlags\");\n"
    "object *number_index(object *) __asm__(\"PyNumber_Index\");\n"
    "long long as_signed(object *) __asm__(\"PyLong_AsLongLong\");\n"
    "unsigned long long as_unsigned(object *) __asm__(\"PyLong_AsUnsignedLongLong\");\n"
    "double as_double(object *) __asm__(\"PyFloat_AsDouble\");\n"
    "int is_true(object *) __asm__(\"PyObject_IsTrue\");\n"
    "object *from_signed(long long) __asm__(\"PyLong_FromLongLong\");\n"
    "object *from_unsigned(unsigned long long) __asm__(\"PyLong_FromUnsignedLongLong\");\n"
    "object *from_double(double) __asm__(\"PyFloat_FromDouble\");\n"
    "object *from_bool(long) __asm__(\"PyBool_FromLong\");\n"
    "object *error_occurred() __asm__(\"PyErr_Occurred\");\n"
    "int error_matches(object *) __asm__(\"PyErr_ExceptionMatches\");\n"
    "object *error_format(object *, const char *, ...) __asm__(\"PyErr_Format\");\n"
    "void increment(object *) __asm__(\"Py_IncRef\");\n"
    "void decrement(object *) __asm__(\"Py_DecRef\");\n"
    "void *thread_save() __asm__(\"PyEval_SaveThread\");\n"
    "void thread_restore(void *) __asm__(\"PyEval_RestoreThread\");\n"
    "object *module_init(definition *) __asm__(\"PyModuleDef_Init\");\n"
    "extern object none __asm__(\"_Py_NoneStruct\");\n"
    "extern object *type_error __asm__(\"PyExc_TypeError\");\n"
    "extern object *overflow_error __asm__(\"PyExc_OverflowError\");\n"
    "extern object *runtime_error __asm__(\"PyExc_RuntimeError\");\n"
    /* What a type is, as one number: the table of types below has the same. */
    "template <class T> struct kind { static constexpr int value = int(sizeof(T)) * 4 +\n"
    "    (T(1) / T(2) != T(0) ? 2 : T(-1) < T(0) ? 1 : 0); };\n"
    "template <class T> struct kind<T *> { static constexpr int value = 1; };\n"
    "template <> struct kind<bool> { static constexpr int value = 3; };\n"
    "template <> struct kind<void> { static constexpr int value = 0; };\n"
    "template <int... K> struct kinds {};\n"
    "template <class A, class B> struct same { static constexpr bool value = false; };\n"
    "template <class A> struct same<A, A> { static constexpr bool value = true; };\n"
    "template <int... K> struct signature {\n"
    "    template <class R, class... A> static constexpr bool fits(R (*)(A...)) {\n"
    "        return same<kinds<K...>, kinds<kind<R>::value, kind<A>::value...>>::value;\n"
    "    }\n"
    "};\n"
    "struct pointer { void *at; template <class T> operator T *() const { return (T *)at; } };\n"
    "struct unlocked {\n"
    "    void *state;\n"
    "    unlocked() : state(thread_save()) {}\n"
    "    ~unlocked() { thread_restore(state); }\n"
    "};\n"
    "struct place { const char *function; int argument; const char *type; };\n"
    "[[maybe_unused]] static bool mismatch(object *o, const place &p, const char *wanted) {\n"
    "    error_format(type_error, \"%s() argument %d (%s) must be %s, not %R\", p.function, p.argument,\n"
    "                 p.type, wanted, o->type);\n"
    "    return false;\n"
    "}\n"
    "[[maybe_unused]] static bool misfit(object *o, const place &p) {\n"
    "    error_format(overflow_error, \"%s() argument %d: %R does not fit %s\", p.function, p.argument, o,\n"
    "                 p.type);\n"
    "    return false;\n"
    "}\n"
    "[[maybe_unused]] static object *wrong_count(const char *function, int wanted, long given) {\n"
    "    return error_format(type_error, \"%s() takes %d argument%s (%d given)\", function, wanted,\n"
    "                        wanted == 1 ? \"\" : \"s\", int(given));\n"
    "}\n"
    /* An int as it is, or what an object says it is as an index: then it is to be decremented. */
    "[[maybe_unused]] static object *index_of(object *o, const place &p) {\n"
    "    if (type_flags(o->type) & 1ul << 24) return increment(o), o;\n"
    "    object *number = number_index(o);\n"
    "    if (!number && error_matches(type_error)) mismatch(o, p, \"an int\");\n"
    "    return number;\n"
    "}\n"
    "template <class T> bool take(object *o, T &out, const place &p) {\n"
    "    object *number = index_of(o, p);\n"
    "    if (!number) return false;\n"
    "    bool good;\n"
    "    if (T(-1) < T(0)) {\n"
    "        long long value = as_signed(number);\n"
    "        out = T(value);\n"
    "        good = (long long)out == value && (value != -1 || !error_occurred());\n"
    "    } else {\n"
    "        unsigned long long value = as_unsigned(number);\n"
    "        out = T(value);\n"
    "        good = (unsigned long long)out == value && (value != ~0ull || !error_occurred());\n"
    "    }\n"
    "    decrement(number);\n"
    "    return good || misfit(o, p);\n"
    "}\n"
    "[[maybe_unused]] static bool take(object *o, pointer &out, const place &p) {\n"
    "    unsigned long long address;\n"
    "    if (!take(o, address, p)) return false;\n"
    "    out.at = (void *)(__UINTPTR_TYPE__)address;\n"
    "    return true;\n"
    "}\n"
    "[[maybe_unused]] static bool take(object *o, double &out, const place &p) {\n"
    "    out = as_double(o);\n"
    "    if (out != -1 || !error_occurred()) return true;\n"
    "    if (error_matches(overflow_error)) return misfit(o, p);\n"
    "    return error_matches(type_error) ? mismatch(o, p, \"a float\") : false;\n"
    "}\n"
    "[[maybe_unused]] static bool take(object *o, float &out, const place &p) {\n"
    "    double wide;\n"
    "    if (!take(o, wide, p)) return false;\n"
    "    out = float(wide);\n"
    /* not finite, or still finite */
    "    bool fits = wide - wide != 0 || float(wide) - float(wide) == 0;\n"
    "    return fits || misfit(o, p);\n"
    "}\n"
    "[[maybe_unused]] static bool take(object *o, bool &out, const place &) {\n"
    "    int truth = is_true(o);\n"
    "    out = truth > 0;\n"
    "    return truth >= 0;\n"
    "}\n"
    "template <class T> object *give(T value) {\n"
    "    return T(-1) < T(0) ? from_signed((long long)value) : from_unsigned((unsigned long long)value);\n"
    "}\n"
    "[[maybe_unused]] static object *give(double value) { return from_double(value); }\n"
    "[[maybe_unused]] static object *give(float value) { return from_double(value); }\n"
    "[[maybe_unused]] static object *give(bool value) { return from_bool(value); }\n"
    "template <class T> object *give(T *value) {\n"
    "    return from_unsigned((unsigned long long)(__UINTPTR_TYPE__)value);\n"
    "}\n"
    "[[maybe_unused]] static object *give() { return increment(&none), &none; }\n"
    "[[maybe_unused]] static object *thrown(const char *function, const char *what) {\n"
    "    return error_format(runtime_error, \"%s() threw %s\", function, what);\n"
    "}\n"
    "}\n"
    "#if defined(__EXCEPTIONS)\n"
    "#define HENRY_TRY try {\n"
    "#define HENRY_END(name) } HENRY_STANDARD(name) catch (...) { return thrown(name, \"a C++ exception\");}\n"
    "#else\n"
    "#define HENRY_TRY {\n"
    "#define HENRY_END(name) }\n"
    "#endif\n";

static const char standard_exceptions[] =
    "#include <exception>\n"
    "#define HENRY_STANDARD(name) catch (const std::exception &e) { return thrown(name, e.what()); }\n";
static const char no_standard_exceptions[] = "#define HENRY_STANDARD(name)\n";

/* ---- signatures ---- */

/* A type of a signature. `kind` as in the template of that name. */
typedef struct type_row {
    const char *name, *text;
    int kind;
} type_row;

static const type_row types[] = {
    {"void", "void", 0},
    {"ptr", "henry_binding::pointer", 1},
    {"bool", "bool", 3},
    {"i8", "signed char", 4 * 1 + 1},
    {"u8", "unsigned char", 4 * 1},
    {"i16", "short", 4 * 2 + 1},
    {"u16", "unsigned short", 4 * 2},
    {"i32", "int", 4 * 4 + 1},
    {"u32", "unsigned int", 4 * 4},
    {"i64", "long long", 4 * 8 + 1},
    {"u64", "unsigned long long", 4 * 8},
    {"f32", "float", 4 * 4 + 2},
    {"f64", "double", 4 * 8 + 2},
};

typedef struct signature {
    const char *text;
    bool is_nogil;
    const type_row *result, *arguments[ARGUMENTS_MAX];
    int count;
    char name[NAME_BYTES];
} signature;

static void skip_blanks(const char **at) {
    while (**at == ' ' || **at == '\t') ++*at;
}

/* Takes an identifier off the front. False when there is none. */
static bool take_word(const char **at, char out[NAME_BYTES]) {
    size_t len = 0;
    skip_blanks(at);
    if (!isalpha((unsigned char)**at) && **at != '_') return false;
    for (; isalnum((unsigned char)**at) || **at == '_'; ++*at)
        if (len + 1 < NAME_BYTES) out[len++] = **at;
    out[len] = 0;
    skip_blanks(at);
    return true;
}

static const type_row *find_type(const char *name) {
    for (size_t i = 0; i < HN_COUNT_OF(types); i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

static hn_status bad_type(const char *text, const char *word) {
    return HN_ERROR(
        HN_INVALID_ARGUMENT,
        "entry '%s': '%s' is no type; there are ptr, bool, i8, u8, i16, u16, i32, u32, i64, u64, "
        "f32, f64 and, for "
        "results, void",
        text, word);
}

static hn_status parse_arguments(const char **at, signature *out) {
    char word[NAME_BYTES];
    if (**at == ')') return NULL;
    for (;;) {
        const char *begin = *at;
        if (!take_word(at, word))
            return HN_ERROR(HN_INVALID_ARGUMENT, "entry '%s': expected a type at '%s'", out->text,
                            begin);
        const type_row *type = find_type(word);
        if (!type || type->kind == 0) return bad_type(out->text, word);
        if (out->count == ARGUMENTS_MAX)
            return HN_ERROR(HN_INVALID_ARGUMENT, "entry '%s': more than %d arguments", out->text,
                            ARGUMENTS_MAX);
        out->arguments[out->count++] = type;
        if (**at != ',') return NULL;
        ++*at;
    }
}

static hn_status parse_signature(const char *text, signature *out) {
    static const char expected[] =
        "expected '[nogil] RESULT NAME(TYPE, ...)', as in 'void scale(ptr, i64, f32)'";
    char word[NAME_BYTES];
    const char *at = text;
    *out = (signature){.text = text};
    bool good = take_word(&at, word);
    if (good && strcmp(word, "nogil") == 0) {
        out->is_nogil = true;
        good = take_word(&at, word);
    }
    if (!good) return HN_ERROR(HN_INVALID_ARGUMENT, "entry '%s': %s", text, expected);
    out->result = find_type(word);
    if (!take_word(&at, out->name) || *at++ != '(')
        return HN_ERROR(HN_INVALID_ARGUMENT, "entry '%s': %s", text, expected);
    if (!out->result) return bad_type(text, word);
    skip_blanks(&at);
    HN_TRY(parse_arguments(&at, out));
    if (*at++ != ')' || *at) return HN_ERROR(HN_INVALID_ARGUMENT, "entry '%s': %s", text, expected);
    return NULL;
}

/* ---- the part of one module ---- */

/* Everything about entry `idx` on one line, which is its number. */
static void write_call(const signature *s, int idx, hn_strbuf *out) {
    bool is_void = s->result->kind == 0;
    hn_strbuf_printf(out, "#line %d \"entries\"\nstatic_assert(henry_binding::signature<%d",
                     idx + 1, s->result->kind);
    for (int i = 0; i < s->count; i++) hn_strbuf_printf(out, ", %d", s->arguments[i]->kind);
    hn_strbuf_printf(out, ">::fits(&::%s), \"entry '%s' is not the type of the function\"); ",
                     s->name, s->text);
    hn_strbuf_printf(
        out,
        "namespace henry_binding { static object *call_%d(object *, object *const *%s, long count) { ",
        idx, s->count ? "args" : "");
    hn_strbuf_printf(out, "if (count != %d) return wrong_count(\"%s\", %d, count); ", s->count,
                     s->name, s->count);
    for (int i = 0; i < s->count; i++)
        hn_strbuf_printf(
            out, "%s a%d; if (!take(args[%d], a%d, place{\"%s\", %d, \"%s\"})) return nullptr; ",
            s->arguments[i]->text, i, i, i, s->name, i + 1, s->arguments[i]->name);
    if (!is_void) hn_strbuf_printf(out, "decltype(::%s(", s->name);
    for (int i = 0; !is_void && i < s->count; i++) hn_strbuf_printf(out, "%sa%d", i ? ", " : "", i);
    if (!is_void) hn_strbuf_puts(out, ")) result; ");
    hn_strbuf_printf(out, "HENRY_TRY %s%s::%s(", s->is_nogil ? "unlocked guard; " : "",
                     is_void ? "" : "result = ", s->name);
    for (int i = 0; i < s->count; i++) hn_strbuf_printf(out, "%sa%d", i ? ", " : "", i);
    hn_strbuf_printf(out, "); HENRY_END(\"%s\") return give(%s); } }\n", s->name,
                     is_void ? "" : "result");
}

static void write_module(const char *module, const hn_strbuf *methods, hn_strbuf *out) {
    hn_strbuf_puts(out,
                   "#line 1 \"binding\"\nnamespace henry_binding {\nstatic method methods[] = {\n");
    hn_strbuf_append(out, methods->ptr ? methods->ptr : "", methods->len);
    hn_strbuf_printf(
        out,
        "    {nullptr, nullptr, 0, nullptr}};\n"
        "static definition module = {{1, nullptr}, nullptr, 0, nullptr, \"%s\", nullptr, 0, methods,\n"
        "                            nullptr, nullptr, nullptr, nullptr};\n}\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) henry_binding::object *PyInit_%s() {\n"
        "    return henry_binding::module_init(&henry_binding::module);\n}\n",
        module, module);
}

hn_status hn_python_binding(const char *module, hn_str signatures, bool has_headers,
                            hn_strbuf *out) {
    const char *text;
    hn_strbuf methods;
    hn_status status = NULL;
    hn_strbuf_puts(out, "\n#line 1 \"binding\"\n");
    hn_strbuf_puts(out, has_headers ? standard_exceptions : no_standard_exceptions);
    hn_strbuf_puts(out, runtime);
    hn_strbuf_init(&methods);
    int count = 0;
    for (hn_str rest = signatures; !status && hn_list_next(&rest, &text); count++) {
        signature s;
        status = parse_signature(text, &s);
        if (status) break;
        write_call(&s, count, out);
        hn_strbuf_printf(&methods, "    {\"%s\", (void *)call_%d, 0x80, \"%s\"},\n", s.name, count,
                         text);
    }
    if (!status && count == 0)
        status = HN_ERROR(HN_INVALID_ARGUMENT,
                          "no entries: name each function of the module with its types, as in "
                          "'void scale(ptr, i64, f32)'");
    if (!status) write_module(module, &methods, out);
    if (!status) status = hn_strbuf_status(&methods);
    hn_strbuf_deinit(&methods);
    return status ? status : hn_strbuf_status(out);
}
