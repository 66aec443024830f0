/* repro_texts.h: REPRO_TEXT(name, "file") has a text of share/repro in the library, from `name` to
 * `name`_end. */
#ifndef HN_BISECT_REPRO_TEXTS_H
#define HN_BISECT_REPRO_TEXTS_H

#define REPRO_TEXT(name, file)                                                                     \
    __asm__(".pushsection .rodata\n.hidden " #name "\n.globl " #name "\n" #name ":\n"              \
            ".incbin \"" HN_REPRO_TEXTS file "\"\n.hidden " #name "_end\n.globl " #name            \
            "_end\n" #name "_end:\n.byte 0\n.popsection\n");                                       \
    extern const char name[], name##_end[]

#endif
