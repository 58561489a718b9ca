# What `cmake --install` puts where.  Everything finds everything else relative to itself, so that the
# installed tree may be moved.

include(CMakePackageConfigHelpers)

install(TARGETS tutti EXPORT tutti LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${static_library} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

file(GLOB man_pages CONFIGURE_DEPENDS man/*.1)
install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pkgconfig_to_prefix
    ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir} ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/tutti.pc.in tutti.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tutti.pc DESTINATION ${pkgconfig_dir})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti)
install(EXPORT tutti NAMESPACE Tutti:: FILE TuttiTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/TuttiConfig.cmake.in TuttiConfig.cmake
    INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(TuttiConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
    ${CMAKE_CURRENT_BINARY_DIR}/TuttiConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/TuttiConfigVersion.cmake
    DESTINATION ${package_dir})

# The Python wheel (pyproject.toml) has its own copy of the library beside the package, as one file, and the
# launcher among the scripts.
if(SKBUILD)
    install(FILES $<TARGET_FILE:tutti> DESTINATION tutti RENAME libtutti.so COMPONENT python)
    install(TARGETS tutti-run RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
endif()
