# studio/ is what tools use beside the library, and hwloc, jansson and expat, which some of it needs. Sets
#     TUTTI_TOPOLOGY       whether topologies are looked at and read here
#     studio_sources       what is built of studio/
#     studio_libraries     what that is linked with
#     unbuildable          patterns of sources that cannot be built here, all sorts: studio_filter takes them out of a list
#     jansson_include_dir  where jansson.h is, with which the library reads its own files; or empty

find_path(HWLOC_INCLUDE_DIR hwloc.h)
find_library(HWLOC_LIBRARY hwloc)
find_path(JANSSON_INCLUDE_DIR jansson.h)
find_library(JANSSON_LIBRARY jansson)
find_path(EXPAT_INCLUDE_DIR expat.h)
if(SKBUILD)
    find_library(EXPAT_LIBRARY libexpat.a) # programs of a wheel need nothing that a machine may lack
else()
    find_library(EXPAT_LIBRARY expat)
endif()
mark_as_advanced(HWLOC_INCLUDE_DIR HWLOC_LIBRARY JANSSON_INCLUDE_DIR JANSSON_LIBRARY EXPAT_INCLUDE_DIR EXPAT_LIBRARY)

set(unbuildable "")
set(studio_libraries "")
set(studio_include_dirs "")
set(jansson_include_dir "")
if(JANSSON_INCLUDE_DIR)
    set(jansson_include_dir ${JANSSON_INCLUDE_DIR})
endif()

set(TUTTI_TOPOLOGY OFF)
if(HWLOC_INCLUDE_DIR AND HWLOC_LIBRARY AND JANSSON_INCLUDE_DIR AND JANSSON_LIBRARY)
    set(TUTTI_TOPOLOGY ON)
    list(APPEND studio_libraries ${HWLOC_LIBRARY} ${JANSSON_LIBRARY})
    list(APPEND studio_include_dirs ${HWLOC_INCLUDE_DIR} ${JANSSON_INCLUDE_DIR})
elseif(CMAKE_CROSSCOMPILING OR SKBUILD) # a compiler for another machine seldom has its libraries; a wheel goes without
    message(STATUS "hwloc or jansson is not here: no tutti-topo, tutti-trace, tutti-tune or tutti-synth")
    list(APPEND unbuildable "studio/topo/(discover|topo_json)" "studio/trace/" "studio/foreign/nccl_" "studio/synth/from_topo_"
        "src/format/.*_test" "src/format/.*_fuzz" "tools/(topo|trace|tune|synth)/"
        "tests/tools/trace_verdict_" "tests/tools/trace_calls_")
else()
    message(FATAL_ERROR "Tutti needs hwloc and jansson (Debian: libhwloc-dev libjansson-dev)")
endif()

if(EXPAT_INCLUDE_DIR AND EXPAT_LIBRARY)
    list(APPEND studio_libraries ${EXPAT_LIBRARY})
    list(APPEND studio_include_dirs ${EXPAT_INCLUDE_DIR})
    list(APPEND unbuildable "studio/foreign/(nccl|msccl)_xml_absent")
else()
    list(APPEND unbuildable "studio/foreign/(nccl|msccl)_xml\\." "studio/foreign/(nccl|msccl)_xml_(test|fuzz)")
    if(TUTTI_TOPOLOGY)
        message(STATUS "expat is not here: tutti-topo reads no XML of NCCL (Debian: libexpat1-dev)")
    endif()
endif()

function(studio_filter list)
    set(left ${${list}})
    foreach(pattern IN LISTS unbuildable)
        list(FILTER left EXCLUDE REGEX "(^|/)${pattern}")
    endforeach()
    set(${list} ${left} PARENT_SCOPE)
endfunction()

file(GLOB studio_sources CONFIGURE_DEPENDS studio/*.c studio/*/*.c)
list(FILTER studio_sources EXCLUDE REGEX "_(test|fuzz)\\.c$")
studio_filter(studio_sources)
