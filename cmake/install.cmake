# SPDX-License-Identifier: BSD-2-Clause
#
# What `cmake --install` puts where, beside the libraries (cmake/layers.cmake:
# ${libdir}/verbena, out of the linker's way), the tools and the man pages, each of
# which its own folder installs.
set(VB_DATADIR ${CMAKE_INSTALL_DATADIR}/verbena)

install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB VB_DOCS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md)
install(FILES ${VB_DOCS} DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB VB_PROFILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/profiles/*.ini)
if(VB_PROFILES)
  install(FILES ${VB_PROFILES} DESTINATION ${VB_DATADIR}/profiles)
endif()
