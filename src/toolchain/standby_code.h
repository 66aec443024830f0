/* standby_code.h: the shared object of tools/worker/standby.c, as bytes. CMake makes the source
 * file that holds it. */
#ifndef HN_TOOLCHAIN_STANDBY_CODE_H
#define HN_TOOLCHAIN_STANDBY_CODE_H

extern const char hn_standby_code[], hn_standby_code_end[];

#endif
