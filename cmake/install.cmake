# SPDX-License-Identifier: BSD-2-Clause
#
# What `cmake --install` puts where, beside the libraries (cmake/layers.cmake:
# ${libdir}/verbena, out of the linker's way), the tools, the profiles and the man pages,
# each of which its own folder installs.
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB VB_DOCS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md)
install(FILES ${VB_DOCS} DESTINATION ${CMAKE_INSTALL_DOCDIR})
