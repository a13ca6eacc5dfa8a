# SPDX-License-Identifier: BSD-2-Clause

# vb_layer(NAME [LIBS...]): the .c files of src/NAME become the static library
# vb_NAME, linked into the shared libraries, the tools and the unit tests.
function(vb_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.c)
  if(sources)
    add_library(vb_${name} STATIC ${sources})
    target_link_libraries(vb_${name} PUBLIC ${ARGN})
  else()
    add_library(vb_${name} INTERFACE)
    target_link_libraries(vb_${name} INTERFACE ${ARGN})
  endif()
endfunction()

# vb_shared(NAME VERSION SOVERSION MAP SOURCES...): a drop-in shared library with
# a version script, NAME.so.VERSION with the links NAME.so.SOVERSION and NAME.so.
function(vb_shared name version soversion map)
  add_library(${name} SHARED ${ARGN})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME ${name} PREFIX ""
    VERSION ${version} SOVERSION ${soversion} LINK_DEPENDS ${map})
  target_link_options(${name} PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined-version)
  # Bound when loaded, as distributions build them: no first call is slower than the next.
  target_link_options(${name} PRIVATE -Wl,-z,relro,-z,now)
  if(NOT VB_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/verbena)
endfunction()
