# Tools and benchmarks see the internal library, examples only what a user sees.

add_custom_target(programs) # what ./demo builds
add_custom_target(tools)    # what a wheel has

# tools/X/ is the program tutti-X.
set(tools info perf plan run schedule)
if(TUTTI_TOPOLOGY)
    list(APPEND tools synth topo trace tune)
endif()
tutti_embed(tools/trace/report_page.c report.html report.css report_data.js report_timeline.js report.js)
set(tools_built "")
foreach(folder IN LISTS tools)
    set(tool tutti-${folder})
    set(tool_files "")
    tutti_take_all(tool tools/${folder})
    add_executable(${tool} ${tool_files})
    target_link_libraries(${tool} PRIVATE tutti_internal)
    add_dependencies(programs ${tool})
    add_dependencies(tools ${tool})
    list(APPEND tools_built ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endforeach()

# tutti-info says how the library was built.
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
string(STRIP "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${build_type}}" build_flags)
string(REGEX REPLACE "-f[a-z]+-prefix-map=[^ ]* *" "" build_flags "${build_flags}") # they name the machine that built it
string(REPLACE "\"" "\\\"" build_flags "${build_flags}")
set(build_facts
    BUILD_COMPILER="${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}" BUILD_TYPE="${CMAKE_BUILD_TYPE}"
    BUILD_FLAGS="${build_flags}" BUILD_SANITIZERS="${TUTTI_SANITIZE}" BUILD_PROCESSOR="${CMAKE_SYSTEM_PROCESSOR}")
foreach(part OPENSSL:TUTTI_OPENSSL JANSSON:jansson_include_dir HWLOC:TUTTI_TOPOLOGY EXPAT:EXPAT_LIBRARY PMIX:PMIX_INCLUDE_DIR
        LIBFABRIC:OFI_INCLUDE_DIR)
    string(REPLACE : ";" part ${part})
    list(GET part 0 name)
    list(GET part 1 variable)
    set(is_there 0)
    if(${variable})
        set(is_there 1)
    endif()
    list(APPEND build_facts BUILD_${name}=${is_there})
endforeach()
set_source_files_properties(tools/info/build.c PROPERTIES COMPILE_DEFINITIONS "${build_facts}")

# A program is X.c, with the parts X_Y.c where it has some.
file(GLOB examples CONFIGURE_DEPENDS examples/*.c)
foreach(source IN LISTS examples)
    get_filename_component(example ${source} NAME_WE)
    string(REGEX REPLACE "_[a-z]+$" "" whole ${example})
    if(NOT whole STREQUAL example AND EXISTS ${CMAKE_SOURCE_DIR}/examples/${whole}.c)
        continue()
    endif()
    file(GLOB parts CONFIGURE_DEPENDS examples/${example}_*.c)
    add_executable(${example} ${source} ${parts})
    target_link_libraries(${example} PRIVATE tutti Threads::Threads m)
    add_dependencies(programs ${example})
endforeach()

# examples/gpt/ is one program, with OpenBLAS, and once more in double, for tests: its files make a library of either sort.
find_path(OPENBLAS_INCLUDE_DIR openblas_config.h PATH_SUFFIXES openblas openblas-pthread)
find_library(OPENBLAS_LIBRARY openblas)
# As OpenBLAS does, they use what this machine has: examples are run where they are built.
include(CheckCCompilerFlag)
check_c_compiler_flag(-march=native TUTTI_MARCH_NATIVE)
set(gpt_machine "")
if(TUTTI_MARCH_NATIVE AND NOT CMAKE_CROSSCOMPILING)
    set(gpt_machine -march=native)
endif()
if(OPENBLAS_INCLUDE_DIR AND OPENBLAS_LIBRARY)
    tutti_take_all(gpt examples/gpt)
    list(REMOVE_ITEM gpt_files examples/gpt/gpt.c)
    foreach(program gpt gpt_double)
        add_library(${program}_parts STATIC ${gpt_files})
        target_include_directories(${program}_parts PUBLIC examples/gpt include ${OPENBLAS_INCLUDE_DIR})
        target_compile_options(${program}_parts PUBLIC -fopenmp-simd -fno-math-errno ${gpt_machine}) # loops become vectors
        target_link_libraries(${program}_parts PUBLIC ${OPENBLAS_LIBRARY} m)
        add_executable(${program} examples/gpt/gpt.c)
        target_link_libraries(${program} PRIVATE ${program}_parts tutti Threads::Threads)
        add_dependencies(programs ${program})
    endforeach()
    target_compile_definitions(gpt_double_parts PUBLIC REAL_DOUBLE)
else()
    message(STATUS "OpenBLAS is not here (Debian: libopenblas-dev): no examples/gpt")
endif()

# Benchmarks of single parts; tutti-perf measures the whole. bench/X.c is the program bench/X, and so is the folder bench/gpu_facts/.
tutti_take_all(bench bench)

# gpu_check has a kernel of its own, so it is only made where what compiles kernels is.
execute_process(COMMAND scripts/kernels.sh --compiler WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} RESULT_VARIABLE no_kernels ERROR_QUIET)
if(no_kernels)
    message(STATUS "clang 14 with NVPTX is not here: no bench/gpu_check")
    list(REMOVE_ITEM bench_files bench/gpu_check.c)
else()
    set(gpu_check_ptx ${CMAKE_BINARY_DIR}/gpu_check.ptx)
    file(GLOB device_sources CONFIGURE_DEPENDS src/gpu/*.h src/gpu/*.inc)
    add_custom_command(OUTPUT ${gpu_check_ptx}
        COMMAND scripts/kernels.sh bench/gpu_check.cu > ${gpu_check_ptx} || (rm ${gpu_check_ptx} && false)
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
        DEPENDS scripts/kernels.sh bench/gpu_check.cu src/kernel/kernel_element.h src/encoding/codec_element.h ${device_sources})
    set_source_files_properties(bench/gpu_check.c PROPERTIES
        COMPILE_DEFINITIONS GPU_CHECK_FILE="${gpu_check_ptx}" OBJECT_DEPENDS ${gpu_check_ptx})
endif()
function(tutti_benchmark benchmark)
    add_executable(${benchmark} ${ARGN})
    set_target_properties(${benchmark} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
    target_link_libraries(${benchmark} PRIVATE tutti_internal)
endfunction()
foreach(source IN LISTS bench_files)
    get_filename_component(benchmark ${source} NAME_WE)
    tutti_benchmark(${benchmark} ${source})
endforeach()
tutti_take_all(gpu_facts bench/gpu_facts)
tutti_benchmark(gpu_facts ${gpu_facts_files})
