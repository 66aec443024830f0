/* build.h: what tells this build of the library from others. */
#ifndef HN_DRIVER_BUILD_H
#define HN_DRIVER_BUILD_H

/* 64 hexadecimal digits: the digest of all sources that the library was built from, of the compiler
 * and of its flags. The same for equal sources, wherever they were built and however the program is
 * started; another one after any change. Static storage. The function is made by CMake. */
const char *hn_build_identity(void);

#endif
