# find_package(henry): henry::henry and henry::henry_rt are the shared libraries and need nothing else;
# henry::henry_static and henry::henry_rt_static also need the libraries looked for here.
find_package(Threads QUIET)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  foreach(henry_module SODIUM=libsodium XXHASH=libxxhash DEFLATE=libdeflate HIREDIS=hiredis)
    string(REGEX MATCH "^[A-Z]+" henry_prefix ${henry_module})
    string(REGEX MATCH "[a-z]+$" henry_module ${henry_module})
    if(NOT TARGET PkgConfig::${henry_prefix})
      pkg_check_modules(${henry_prefix} QUIET IMPORTED_TARGET ${henry_module})
    endif()
  endforeach()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/henry-targets.cmake)
