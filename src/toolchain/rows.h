/* rows.h: the rows of the language table. A new language is one file that defines its row, one line here and
 * one in toolchain.c. */
#ifndef HN_TOOLCHAIN_ROWS_H
#define HN_TOOLCHAIN_ROWS_H

#include "toolchain/toolchain.h"

extern const hn_toolchain_row hn_toolchain_row_c;

#endif
