# Where ccache is installed it serves all builds, those of fresh clones in other folders too: paths below the root
# count as relative ones, and the folder that a compiler runs in does not count. Debug information names no folders
# either (-ffile-prefix-map). Included before project(), so that a launcher that the user has chosen stays.
option(TUTTI_CCACHE "Compile through ccache where it is installed" ON)
if(TUTTI_CCACHE AND NOT TUTTI_COVERAGE AND NOT DEFINED CMAKE_C_COMPILER_LAUNCHER AND NOT DEFINED ENV{CMAKE_C_COMPILER_LAUNCHER})
    find_program(CCACHE_PROGRAM ccache)
    mark_as_advanced(CCACHE_PROGRAM)
    if(CCACHE_PROGRAM)
        # For tests that build: their XDG_CACHE_HOME is another one (cmake/tests.cmake).
        execute_process(COMMAND ${CCACHE_PROGRAM} --get-config cache_dir
            OUTPUT_VARIABLE ccache_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        set(CMAKE_C_COMPILER_LAUNCHER
            ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=true ${CCACHE_PROGRAM})
    endif()
endif()
