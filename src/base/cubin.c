/* cubin.c: see the header. A compiler made the file, but nothing is believed: every offset is
 * checked.
 *
 * Source: the format has no specification. The attributes and what they count were compared with
 * what ptxas 13.0 prints (-v) for sm_80, sm_90a and sm_120. */
#include "base/cubin.h"

#include <elf.h>

/* Attributes of the section ".nv.info": a format and a number of one byte each, and 16 bits, which
 * in this format are the length of what follows. Those below have a symbol and a number. */
enum { WITH_LENGTH = 4 };
enum { FRAME_BYTES = 0x11, LEAST_STACK_BYTES = 0x12, REGISTERS = 0x2f };

/* From sm_90 on a group's shared memory begins with so much for the system, if this section is
 * there. */
enum { RESERVED_BYTES = 1024 };
#define RESERVED_SECTION ".nv.shared.reserved.0"

typedef struct cubin {
    hn_str file;
    Elf64_Ehdr header;
    Elf64_Shdr names;
} cubin;

/* `count` things of `size` bytes at `offset`, or NULL when they are not all in the file. */
static const char *span(hn_str file, uint64_t offset, uint64_t count, uint64_t size) {
    if (offset > file.len || (count && size > (file.len - offset) / count)) return NULL;
    return file.ptr + offset;
}

static bool section_at(const cubin *c, uint64_t idx, Elf64_Shdr *out) {
    const char *at = idx < c->header.e_shnum
                         ? span(c->file, c->header.e_shoff, c->header.e_shnum, sizeof *out)
                         : NULL;
    if (at) memcpy(out, at + idx * sizeof *out, sizeof *out);
    return at != NULL;
}

/* A string of a table of strings; NULL: there is none, or it does not end. */
static const char *string_at(const cubin *c, const Elf64_Shdr *table, uint64_t offset) {
    const char *at = span(c->file, table->sh_offset, 1, table->sh_size);
    if (!at || offset >= table->sh_size) return NULL;
    return memchr(at + offset, 0, table->sh_size - offset) ? at + offset : NULL;
}

static bool open_file(hn_str file, cubin *out) {
    *out = (cubin){.file = file};
    if (file.len < sizeof out->header || memcmp(file.ptr, ELFMAG, SELFMAG) != 0 ||
        file.ptr[EI_CLASS] != ELFCLASS64)
        return false;
    memcpy(&out->header, file.ptr, sizeof out->header);
    return section_at(out, out->header.e_shstrndx, &out->names);
}

static bool find_section(const cubin *c, const char *name, const char *tail, Elf64_Shdr *out) {
    for (uint64_t k = 0; k < c->header.e_shnum && section_at(c, k, out); k++) {
        const char *own = string_at(c, &c->names, out->sh_name);
        const size_t len = strlen(name);
        if (own && strncmp(own, name, len) == 0 && strcmp(own + len, tail) == 0) return true;
    }
    return false;
}

/* Of a table of symbols, the number of the one of that name. */
static bool find_symbol(const cubin *c, const Elf64_Shdr *table, const char *name,
                        uint32_t *out_number) {
    Elf64_Shdr names;
    const uint64_t count = table->sh_size / sizeof(Elf64_Sym);
    const char *symbols = span(c->file, table->sh_offset, count, sizeof(Elf64_Sym));
    if (!symbols || count > UINT32_MAX || !section_at(c, table->sh_link, &names)) return false;
    for (*out_number = 0; *out_number < count; ++*out_number) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols + *out_number * sizeof symbol, sizeof symbol);
        const char *own = string_at(c, &names, symbol.st_name);
        if (own && strcmp(own, name) == 0) return true;
    }
    return false;
}

static void take_attribute(uint8_t number, uint32_t value, hn_cubin_use *out, bool *found) {
    const bool is_stack = number == FRAME_BYTES || number == LEAST_STACK_BYTES;
    if (number == REGISTERS) out->registers = value, *found = true;
    if (is_stack && value > out->stack_bytes) out->stack_bytes = value;
}

/* The attributes of a symbol. False: its registers are not among them. */
static bool read_info(hn_str info, uint32_t symbol, hn_cubin_use *out) {
    bool found = false;
    for (size_t at = 0; at + 4 <= info.len;) {
        uint16_t len = 0;
        uint32_t pair[2];
        const uint8_t format = (uint8_t)info.ptr[at], number = (uint8_t)info.ptr[at + 1];
        if (format == WITH_LENGTH) memcpy(&len, info.ptr + at + 2, sizeof len);
        at += 4;
        if (len > info.len - at) return false;
        if (len == sizeof pair) {
            memcpy(pair, info.ptr + at, sizeof pair);
            if (pair[0] == symbol) take_attribute(number, pair[1], out, &found);
        }
        at += len;
    }
    return found;
}

static uint32_t shared_bytes(const cubin *c, const char *kernel) {
    Elf64_Shdr own, reserved;
    if (!find_section(c, ".nv.shared.", kernel, &own)) return 0;
    if (!find_section(c, RESERVED_SECTION, "", &reserved)) return (uint32_t)own.sh_size;
    return own.sh_size < RESERVED_BYTES ? 0 : (uint32_t)(own.sh_size - RESERVED_BYTES);
}

bool hn_cubin_use_find(hn_str file, const char *kernel, hn_cubin_use *out) {
    cubin c;
    Elf64_Shdr info, symbols;
    uint32_t symbol;
    *out = (hn_cubin_use){.registers = 0};
    if (!open_file(file, &c) || !find_section(&c, ".nv.info", "", &info) ||
        !section_at(&c, info.sh_link, &symbols) || !find_symbol(&c, &symbols, kernel, &symbol))
        return false;
    const char *bytes = span(file, info.sh_offset, 1, info.sh_size);
    if (!bytes || !read_info((hn_str){bytes, info.sh_size}, symbol, out)) return false;
    out->shared_bytes = shared_bytes(&c, kernel);
    return true;
}

/* Whether a section has bytes in the file, as far as that is known: memory that is only there when
 * the code runs may be of a type of NVIDIA's own. */
static bool has_bytes(const Elf64_Shdr *section) {
    return section->sh_type != SHT_NULL && section->sh_type != SHT_NOBITS &&
           section->sh_type < SHT_LOPROC;
}

bool hn_cubin_is_whole(hn_str file) {
    cubin c;
    Elf64_Shdr section;
    if (!open_file(file, &c) ||
        !span(file, c.header.e_phoff, c.header.e_phnum, c.header.e_phentsize))
        return false;
    for (uint64_t k = 0; k < c.header.e_shnum; k++) {
        if (!section_at(&c, k, &section)) return false;
        if (has_bytes(&section) && !span(file, section.sh_offset, 1, section.sh_size)) return false;
    }
    return true;
}
