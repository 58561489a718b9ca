# What `cmake --install` puts where.  Everything finds everything else relative to itself, so that the
# installed tree may be moved.  `cmake --install ... --component X` takes a part, for packages (debian/rules):
#     library       libtutti.so.0, which programs run with
#     development   headers, the archive, what pkg-config and CMake ask for, the manual pages of the functions
#     tools         the programs with their manual pages, completion and topologies
#     python        what a wheel has

include(CMakePackageConfigHelpers)

install(TARGETS tutti EXPORT tutti
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(FILES ${static_library} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h")

foreach(section 1 7)
    file(GLOB man_pages CONFIGURE_DEPENDS man/*.${section})
    install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT tools)
endforeach()
# The pages of the functions are made from the header's comments.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
    add_custom_command(OUTPUT man3.stamp
        COMMAND ${CMAKE_COMMAND} -E rm -rf man3
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/reference.py --man man3
        COMMAND ${CMAKE_COMMAND} -E touch man3.stamp
        DEPENDS scripts/reference.py scripts/header.py include/tutti/tutti.h include/tutti/plan.h include/tutti/train.h
            include/tutti/encode.h include/tutti/server.h include/tutti/exclude.h include/tutti/sparse.h include/tutti/train/adapt.h
            include/tutti/train/checkpoint.h include/tutti/train/compress.h include/tutti/train/local.h
            include/tutti/train/pipeline.h
            include/tutti/train/shards.h
            src/base/status.h scripts/options.py src/base/option_list.h docs/reference/options.md
        COMMENT "Writing the manual pages of the functions")
    add_custom_target(man3 ALL DEPENDS man3.stamp)
    install(DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.3")
else()
    message(STATUS "python3 is not here: no manual pages of the functions")
endif()

# Topologies to begin with.
install(DIRECTORY share/tutti/topologies DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti COMPONENT tools
    FILES_MATCHING PATTERN "*.json")
# A dashboard over the metrics of TUTTI_METRICS_DIR.
install(FILES share/grafana/tutti.json DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti/grafana COMPONENT tools)

# bash looks for a file with the program's name, zsh for one that names its programs.
set(TUTTI_ZSH_DIR ${CMAKE_INSTALL_DATAROOTDIR}/zsh/site-functions CACHE STRING "Where zsh looks for completion")
foreach(program IN LISTS tools_built)
    install(FILES tools/completion/tutti.bash RENAME ${program}
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions COMPONENT tools)
endforeach()
install(FILES tools/completion/_tutti DESTINATION ${TUTTI_ZSH_DIR} COMPONENT tools)

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pkgconfig_to_prefix
    ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir} ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/tutti.pc.in tutti.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tutti.pc DESTINATION ${pkgconfig_dir} COMPONENT development)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tutti)
install(EXPORT tutti NAMESPACE Tutti:: FILE TuttiTargets.cmake DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(cmake/TuttiConfig.cmake.in TuttiConfig.cmake
    INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
# As the soname: programs go on with every later version of a major one, see docs/reference/compatibility.md.
write_basic_package_version_file(TuttiConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES
    ${CMAKE_CURRENT_BINARY_DIR}/TuttiConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/TuttiConfigVersion.cmake
    DESTINATION ${package_dir} COMPONENT development)

# The Python wheel (pyproject.toml) has its own copy of the library beside the package, as one file, and the
# programs among the scripts.
if(SKBUILD)
    install(FILES $<TARGET_FILE:tutti> DESTINATION tutti RENAME libtutti.so COMPONENT python)
    install(TARGETS ${tools_built} RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
    install(FILES bindings/torch/tutti_torch.pth DESTINATION . COMPONENT python)
    # Sources that are compiled for PyTorch on first use include the library's headers from there.
    install(DIRECTORY include/tutti DESTINATION tutti_torch/native COMPONENT python FILES_MATCHING PATTERN "*.h")
endif()
