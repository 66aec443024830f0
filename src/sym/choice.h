/* choice.h: decision tables (base/choice.h) over sizes that are expressions. */
#ifndef HN_SYM_CHOICE_H
#define HN_SYM_CHOICE_H

#include "base/choice.h"
#include "sym/sym.h"

typedef struct hn_sym_choice {
    hn_choice head;
    hn_expr axes[HN_CHOICE_AXES];
    const hn_choice_box *boxes;
} hn_sym_choice;

#endif
