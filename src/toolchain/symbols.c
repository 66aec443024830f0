/* symbols.c: see symbols.h. A compiler made the file, but nothing is believed: every offset is
 * checked. */
#include "toolchain/symbols.h"

#include <elf.h>

/* `count` things of `size` bytes at `offset`, or NULL when they are not all in the file. */
static const char *span(hn_str file, uint64_t offset, uint64_t count, uint64_t size) {
    if (offset > file.len || (count && size > (file.len - offset) / count)) return NULL;
    return file.ptr + offset;
}

static bool section_at(hn_str file, const Elf64_Ehdr *header, uint64_t idx, Elf64_Shdr *out) {
    const char *at =
        idx < header->e_shnum ? span(file, header->e_shoff, header->e_shnum, sizeof(*out)) : NULL;
    if (at) memcpy(out, at + idx * sizeof(*out), sizeof(*out));
    return at != NULL;
}

/* "_ZN3abc6kernelEPf" has a part "6kernel". */
static bool mangles(const char *symbol, const char *name) {
    char part[128];
    if (symbol[0] != '_' || symbol[1] != 'Z') return false;
    return snprintf(part, sizeof(part), "%zu%s", strlen(name), name) < (int)sizeof(part) &&
           strstr(symbol, part);
}

static void search(hn_str file, const Elf64_Shdr *table, const Elf64_Shdr *names, const char *name,
                   bool *found, bool *mangled) {
    const char *strings = span(file, names->sh_offset, 1, names->sh_size);
    uint64_t count = table->sh_size / sizeof(Elf64_Sym);
    const char *symbols = span(file, table->sh_offset, count, sizeof(Elf64_Sym));
    if (!strings || !symbols || !names->sh_size || strings[names->sh_size - 1]) return;
    for (uint64_t i = 0; i < count && !*found; i++) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols + i * sizeof(symbol), sizeof(symbol));
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names->sh_size) continue;
        *found = strcmp(strings + symbol.st_name, name) == 0;
        *mangled |= mangles(strings + symbol.st_name, name);
    }
}

hn_status hn_symbols_find(hn_str object, const char *name, bool *out_found, bool *out_mangled) {
    Elf64_Ehdr header;
    Elf64_Shdr table, names;
    bool mangled = false;
    *out_found = false;
    if (object.len < sizeof(header) || memcmp(object.ptr, ELFMAG, SELFMAG) != 0 ||
        object.ptr[EI_CLASS] != ELFCLASS64)
        return HN_ERROR(HN_TOOLCHAIN, "the compiler wrote %zu bytes that are no 64-bit ELF file",
                        object.len);
    memcpy(&header, object.ptr, sizeof(header));
    for (uint64_t i = 0; i < header.e_shnum && !*out_found; i++) {
        if (!section_at(object, &header, i, &table)) break;
        if (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) continue;
        if (section_at(object, &header, table.sh_link, &names))
            search(object, &table, &names, name, out_found, &mangled);
    }
    if (out_mangled) *out_mangled = mangled;
    return NULL;
}

hn_status hn_symbols_missing(const char *name, bool is_mangled, const char *linkage) {
    if (is_mangled)
        return HN_ERROR(HN_TOOLCHAIN, "no function '%s' with C linkage; declare it %s", name,
                        linkage);
    return HN_ERROR(HN_TOOLCHAIN,
                    "no function '%s' in what was compiled; it was asked for as an entry", name);
}

hn_status hn_symbols_check(hn_toolchain_result *result, hn_str entries, const char *linkage) {
    const char *name;
    while (hn_list_next(&entries, &name)) {
        bool found, mangled;
        HN_TRY(hn_symbols_find(hn_strbuf_str(&result->bytes), name, &found, &mangled));
        if (found) continue;
        result->is_deterministic = true;
        return hn_symbols_missing(name, mangled && linkage[0], linkage);
    }
    return NULL;
}
