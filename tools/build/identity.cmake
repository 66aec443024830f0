# Writes OUT, a C file with the identity of this build: a digest of what LIST says (how it is compiled, and a line for each
# source file, by its path below ROOT) and of the bytes of these files. Equal sources have equal identities, wherever they lie.
#     cmake -DROOT=... -DLIST=... -DOUT=... -P identity.cmake
file(READ ${LIST} list)
file(STRINGS ${LIST} names REGEX "^source ")
set(text "${list}")
foreach(name ${names})
  string(REGEX REPLACE "^source " "" name "${name}")
  file(SHA256 ${ROOT}/${name} digest)
  string(APPEND text "${digest}\n")
endforeach()
string(SHA256 identity "${text}")
file(WRITE ${OUT} "/* Made by tools/build/identity.cmake. */
#include \"driver/build.h\"

const char *hn_build_identity(void) { return \"${identity}\"; }
")
