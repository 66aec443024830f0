/* rows.h: the rows of the language table. A new language is one file that defines its row, and one
 * line here.
 */
#ifndef HN_TOOLCHAIN_ROWS_H
#define HN_TOOLCHAIN_ROWS_H

#define HN_TOOLCHAIN_ROW_LIST(ROW)                                                                 \
    ROW(hn_toolchain_row_c)                                                                        \
    ROW(hn_toolchain_row_cxx)                                                                      \
    ROW(hn_toolchain_row_python)                                                                   \
    ROW(hn_toolchain_row_cuda)                                                                     \
    ROW(hn_toolchain_row_nvcc)                                                                     \
    ROW(hn_toolchain_row_opencl)

#endif
