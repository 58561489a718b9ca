# hwloc, jansson and expat.  Sets
#     TUTTI_TOPOLOGY       whether topologies are looked at and read here
#     TUTTI_NCCL_XML       ... those of NCCL, too
#     topology_sources     all files of src/ that need one of these libraries, whether it is here or not, and that only tools need
#     json_sources         those that the library reads its own files with; without jansson.h, one that says so
#     plain_sources        those that need nothing
#     topology_used        those that are built
#     msccl_sources        what reads and writes schedules of MSCCL, for tools: built whether these libraries are here or not
#     topology_tests       patterns of tests, fuzzers and tools that cannot be built without
#     topology_libraries, topology_include_dirs

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

set(TUTTI_TOPOLOGY OFF)
set(TUTTI_NCCL_XML OFF)
if(HWLOC_INCLUDE_DIR AND HWLOC_LIBRARY AND JANSSON_INCLUDE_DIR AND JANSSON_LIBRARY)
    set(TUTTI_TOPOLOGY ON)
elseif(CMAKE_CROSSCOMPILING OR SKBUILD) # a compiler for another machine seldom has its libraries; a wheel goes without
    message(STATUS "hwloc or jansson is not here: no tutti-topo, tutti-trace, tutti-tune or tutti-synth")
else()
    message(FATAL_ERROR "Tutti needs hwloc and jansson (Debian: libhwloc-dev libjansson-dev)")
endif()
if(TUTTI_TOPOLOGY AND EXPAT_INCLUDE_DIR AND EXPAT_LIBRARY)
    set(TUTTI_NCCL_XML ON)
elseif(TUTTI_TOPOLOGY)
    message(STATUS "expat is not here: tutti-topo reads no XML of NCCL (Debian: libexpat1-dev)")
endif()

file(GLOB topology_sources CONFIGURE_DEPENDS src/topo/discover.c src/format/*.c)
list(FILTER topology_sources EXCLUDE REGEX "_(test|fuzz)\\.c$")
set(plain_sources ${topology_sources})
list(FILTER plain_sources INCLUDE REGEX "/format/(cache_folder|network_file|plan_file|proof_file|trusted_)")
set(json_sources ${topology_sources})
list(FILTER json_sources INCLUDE REGEX "/format/(jansson|json_|calibration_|table_)")
list(REMOVE_ITEM topology_sources ${json_sources} ${plain_sources})
set(msccl_sources ${topology_sources}) # these need expat at most, and tutti-plan is built in any case
list(FILTER msccl_sources INCLUDE REGEX "/format/msccl(pp)?_")
list(REMOVE_ITEM topology_sources ${msccl_sources})
if(EXPAT_INCLUDE_DIR AND EXPAT_LIBRARY)
    list(FILTER msccl_sources EXCLUDE REGEX "/msccl_xml_absent\\.c$")
else()
    list(FILTER msccl_sources EXCLUDE REGEX "/msccl_xml\\.c$")
endif()
if(JANSSON_INCLUDE_DIR) # the library itself is loaded when it is needed, see src/format/jansson.h
    list(FILTER json_sources EXCLUDE REGEX "_absent\\.c$")
    set(json_include_dir ${JANSSON_INCLUDE_DIR})
else()
    list(FILTER json_sources INCLUDE REGEX "_absent\\.c$")
endif()
set(topology_used ${topology_sources})
set(topology_libraries ${HWLOC_LIBRARY} ${JANSSON_LIBRARY})
set(topology_include_dirs ${HWLOC_INCLUDE_DIR} ${JANSSON_INCLUDE_DIR})
set(topology_tests "")
if(TUTTI_NCCL_XML)
    list(FILTER topology_used EXCLUDE REGEX "/nccl_xml_absent\\.c$")
    list(APPEND topology_libraries ${EXPAT_LIBRARY})
    list(APPEND topology_include_dirs ${EXPAT_INCLUDE_DIR})
else()
    list(FILTER topology_used EXCLUDE REGEX "/nccl_xml\\.c$")
    list(APPEND topology_tests "src/format/nccl_xml_" "src/format/msccl_xml_")
endif()
if(NOT TUTTI_TOPOLOGY)
    list(APPEND topology_tests "src/format/" "src/topo/discover_" "tutti-topo" "tutti-trace" "tutti-tune" "tutti-synth"
        "src/synth/from_topo_"
        "tests/tutti_trace_verdict_" "tests/tutti_trace_calls_")
endif()

# Takes the tests, fuzzers or tools out of a list that cannot be built here.
function(topology_filter list)
    set(left ${${list}})
    foreach(pattern IN LISTS topology_tests)
        list(FILTER left EXCLUDE REGEX "(^|/)${pattern}")
    endforeach()
    set(${list} ${left} PARENT_SCOPE)
endfunction()
