# Every src/**/X_test.c, studio/**/X_test.c and tests/**/X_test.c is a program and a test; every tests/**/X_test.sh is a test. So is every
# examples/gpt/X_test.c, with the parts of that example in double, where OpenBLAS is.
#
# A test says what is special about it in its own source, in a comment with one line such as
#     ctest: label=long timeout=300 serial
# label=long     only `./check --long` runs it
# label=nosan    it makes no sense with sanitizers, or takes too long with them
# label=notsan   the same for the thread sanitizer alone (it needs more than one process, or has only one thread)
# label=once     it takes long and asks nothing of the compiler: not again with the second one
# label=longsan  with a sanitizer, only `./check --long` runs it: it mostly starts programs whose parts other tests run with sanitizers
# label=longtsan the same for the thread sanitizer alone: its processes have the threads that those of other tests have
# timeout=N      seconds, instead of 120 (sanitizers and emulators get three times as many)
# waits          its ranks wait most of the time, so it counts as a third of a test: it runs beside others, which begin first
# serial         nothing may run beside it: it watches the time, or counts what all of the machine does
# lock=NAME      no other test with this lock may run beside it: they share a port, say
# makes=NAME     what the tests that say needs=NAME use: it runs before them, whichever of them are selected
# removes=NAME   it runs after them, and takes that away again
# first          it takes longer than most, and starts before the others, so that it is not left over at the end
# Tests of what is pure have one thread, and so label=notsan, unless they start more.
# Under --long the environment has TUTTI_LONG=1 for all tests.
# Scripts exit with 77 when they cannot run here, after printing why.

# Tests share the other files of the rooms. Those of compatibility/ are programs of other versions, which its tests compile; part
# of gpu/ is the next library.
file(GLOB rooms CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} tests/*)
list(REMOVE_ITEM rooms tests/compatibility tests/gpu)
foreach(room IN LISTS rooms)
    tutti_take_all(testing ${room})
endforeach()
tutti_folder(testing tests/gpu
    cuda_standin_use.c device_case.c device_driver.c device_sweep.c gpu_game.c twins.c)

add_library(tutti_testing STATIC ${testing_files})
target_compile_options(tutti_testing PUBLIC -UNDEBUG) # a test's assert() always counts
target_include_directories(tutti_testing PUBLIC ${CMOCKA_INCLUDE_DIR})
target_include_directories(tutti_testing PUBLIC . src include)
target_link_libraries(tutti_testing PUBLIC ${CMOCKA_LIBRARY})
set(library_tested tutti_internal)
if(TARGET tutti_tested)
    set(library_tested tutti_tested)
endif()

# The test double for CUDA's driver (tests/gpu/cuda_standin.h), which is loaded as the driver is. By its soname it is that: a program that
# has loaded it has "libcuda.so.1". It runs kernels as their twins on the host.
tutti_folder(standin tests/gpu
    cuda_standin.c cuda_standin_context_calls.c cuda_standin_device_calls.c cuda_standin_errors.c cuda_standin_mapped.c
    cuda_standin_mapped_calls.c cuda_standin_memory.c cuda_standin_memory_calls.c cuda_standin_module_calls.c
    cuda_standin_state.c cuda_standin_stream_calls.c cuda_standin_work.c)
tutti_check_folders(tests/gpu)

add_library(cuda_standin SHARED ${standin_files} tests/gpu/twins.c)
set_target_properties(cuda_standin PROPERTIES NO_SONAME ON)
# Memory of threads is in place from their start: the thread sanitizer does not know how it comes and goes in a library that is loaded late.
target_compile_options(cuda_standin PRIVATE -UNDEBUG -ftls-model=initial-exec)
target_include_directories(cuda_standin PRIVATE . src include)
target_link_options(cuda_standin PRIVATE LINKER:-soname,libcuda.so.1)
target_link_libraries(cuda_standin PRIVATE Threads::Threads m)
add_dependencies(tutti_testing cuda_standin) # all tests may load it

# What is tested is compiled as for users; tests themselves need not be fast, and two fifths of the time to compile them is saved.
set(test_optimization "")
if(CMAKE_BUILD_TYPE STREQUAL "Release")
    set(test_optimization -O1)
endif()
target_compile_options(tutti_testing PRIVATE ${test_optimization})
target_compile_options(cuda_standin PRIVATE ${test_optimization})

# What the tests need that make sense in this build, of those that are asked for.
set(TUTTI_TESTED "." CACHE STRING "Tests that the target `tested` builds: a regular expression of their names")
option(TUTTI_TESTED_LONG "The target `tested` builds tests with label=long, too" ON)
add_custom_target(tested)
add_dependencies(tested programs tutti tutti_static)
set(labels_left_out "^-$") # none
if(TUTTI_SANITIZE MATCHES "thread")
    set(labels_left_out "nosan|notsan")
elseif(TUTTI_SANITIZE)
    set(labels_left_out "nosan")
endif()
if(NOT TUTTI_TESTED_LONG)
    string(APPEND labels_left_out "|long")
endif()

function(tutti_describe_test test source)
    # The line is read when CMake runs, so CMake has to run again when it changes.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} line REGEX "^[ /*#]*ctest: " LIMIT_COUNT 1)
    string(REGEX REPLACE "^[ /*#]*ctest: *" "" line "${line}")
    string(REGEX REPLACE " *\\*/.*" "" line "${line}")
    separate_arguments(words UNIX_COMMAND "${line}")
    set(labels "")
    set(cost 0)
    set(timeout 120)
    set(thirds 3)
    foreach(word IN LISTS words)
        if(word MATCHES "^label=(long|nosan|notsan|once)$")
            list(APPEND labels ${CMAKE_MATCH_1})
        elseif(word STREQUAL "label=longsan" OR word STREQUAL "label=longtsan")
            if(TUTTI_SANITIZE MATCHES "thread" OR (TUTTI_SANITIZE AND word STREQUAL "label=longsan"))
                list(APPEND labels long)
            endif()
        elseif(word MATCHES "^timeout=([0-9]+)$")
            set(timeout ${CMAKE_MATCH_1})
        elseif(word STREQUAL "waits")
            set(thirds 1)
        elseif(word STREQUAL "serial")
            set_tests_properties(${test} PROPERTIES RUN_SERIAL ON)
        elseif(word MATCHES "^lock=([a-z_]+)$")
            set_tests_properties(${test} PROPERTIES RESOURCE_LOCK ${CMAKE_MATCH_1})
        elseif(word MATCHES "^(makes|needs|removes)=([a-z_]+)$")
            string(REPLACE makes FIXTURES_SETUP role ${CMAKE_MATCH_1})
            string(REPLACE needs FIXTURES_REQUIRED role ${role})
            string(REPLACE removes FIXTURES_CLEANUP role ${role})
            set_tests_properties(${test} PROPERTIES ${role} ${CMAKE_MATCH_2})
        elseif(word STREQUAL "first")
            set(cost 1000)
        else()
            message(FATAL_ERROR "${source}: ctest: '${word}' is not known")
        endif()
    endforeach()
    if(${test} MATCHES "^(algo|plan|studio|model|topo|tune|format|path|membership|engine/bind)")
        file(STRINGS ${source} threads REGEX "pthread|/ranks\\.h\"|RANKS_THREADS" LIMIT_COUNT 1)
        if(NOT threads)
            list(APPEND labels notsan)
            list(REMOVE_DUPLICATES labels)
        endif()
    endif()
    if(cost EQUAL 0 AND thirds EQUAL 1)
        set(cost -1) # the others begin first, so that until the end there is something beside which these wait
    endif()
    if(NOT cost EQUAL 0) # else what it took last time counts
        set_tests_properties(${test} PROPERTIES COST ${cost})
    endif()
    if(TUTTI_SANITIZE OR CMAKE_CROSSCOMPILING)
        math(EXPR timeout "3 * ${timeout}")
    endif()
    set(environment
        TUTTI_ROOT=${CMAKE_SOURCE_DIR}
        TUTTI_BUILD=${CMAKE_BINARY_DIR}
        TUTTI_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
        XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/cache
        CC=${CMAKE_C_COMPILER})
    if(ccache_folder) # what builds, such as the wheel, is served what the build has compiled
        list(APPEND environment CCACHE_DIR=${ccache_folder})
    endif()
    if(TUTTI_SANITIZE MATCHES "thread")
        # The thread sanitizer sees races between threads, not between processes.
        list(APPEND environment TUTTI_TEST_RANKS=threads TUTTI_KERNEL=scalar) # the others are not watched (cmake/sources.cmake)
    endif()
    set_tests_properties(${test} PROPERTIES
        LABELS "${labels}" TIMEOUT ${timeout} PROCESSORS ${thirds} SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
endfunction()

# Functions that tests put their own in place of: tutti_replace(PROGRAM FUNCTION...). The linker does so in what it puts into the
# program, and so these programs have the library in them.
function(tutti_replace program)
    list(TRANSFORM ARGN PREPEND LINKER:--wrap= OUTPUT_VARIABLE replaced)
    set(replaced_${program} ${replaced} PARENT_SCOPE)
endfunction()

# What the library asks the system for fails there, now and then.
tutti_replace(tests_system_exhaustion_test malloc calloc realloc reallocarray aligned_alloc strdup mmap pthread_create fallocate)
# What a rank does to join fails there, or a nap takes long.
tutti_replace(tests_startup_joining_test
    processes_open comm_agree_on_knowledge transports_open_remote router_create plans_prove comm_find_site handle_add ofi_open
    nanosleep)
# What a sandbox may deny.
tutti_replace(tests_system_denied_test accept4 getsockopt)
tutti_replace(transport_ofi_choice_test ofi_library_load) # takes long there
# A thread stops there, where it has got a lock or is to read a file.
tutti_replace(tests_system_fork_locks_test
    pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock table_file_load calibration_file_load plan_file_load)
tutti_replace(tests_train_checkpoint_disk_test write fsync mkdir rename unlinkat)
# What the library asks malloc and itself for is counted there.
tutti_replace(tests_train_shards_memory_test malloc calloc realloc reallocarray aligned_alloc strdup free tutti_mem_alloc tutti_mem_free)
tutti_replace(tests_system_hung_files_test mkdir)
tutti_replace(os_tls_test SSL_CTX_ctrl)
tutti_replace(os_shm_test memfd_create)
tutti_replace(health_remote_rank_test malloc)

tutti_folder(testing tests/tools
    IF TUTTI_TOPOLOGY trace_calls_test.c trace_verdict_test.c) # they include files of tutti-trace
file(GLOB_RECURSE unit_tests CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} src/*_test.c studio/*_test.c train/*_test.c)
file(GLOB system_tests CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} tests/*/*_test.c)
set(gpt_tests "")
if(TARGET gpt_double_parts)
    file(GLOB gpt_tests CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} examples/gpt/*_test.c)
endif()
# They include the sources of a front.
foreach(module communicators order proto service)
    set(includes_tests_bindings_tensorflow_${module}_test bindings/tensorflow)
endforeach()
foreach(source IN LISTS unit_tests system_tests gpt_tests)
    if(source IN_LIST tests_left_out)
        continue()
    endif()
    string(REGEX REPLACE "^(src/|)(.*)_test\\.c$" "\\2" test ${source})
    string(REPLACE "/" "_" program ${test}_test)
    add_executable(${program} ${source})
    set_target_properties(${program} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    if(source MATCHES "^examples/gpt/")
        target_link_libraries(${program} PRIVATE gpt_double_parts) # which needs the library that comes next
    endif()
    target_link_libraries(${program} PRIVATE tutti_testing)
    if(DEFINED replaced_${program})
        target_link_libraries(${program} PRIVATE tutti_internal)
        target_link_options(${program} PRIVATE ${replaced_${program}})
    else()
        target_link_libraries(${program} PRIVATE ${library_tested})
    endif()
    if(DEFINED includes_${program})
        target_include_directories(${program} PRIVATE ${includes_${program}})
    endif()
    target_compile_options(${program} PRIVATE ${test_optimization})
    add_test(NAME ${test} COMMAND ${program})
    tutti_describe_test(${test} ${CMAKE_SOURCE_DIR}/${source})
    get_test_property(${test} LABELS labels)
    if(NOT labels MATCHES "${labels_left_out}" AND test MATCHES "${TUTTI_TESTED}")
        add_dependencies(tested ${program})
    endif()
endforeach()

# A program that opens libtutti_jax.so as MPItrampoline does, for tests/bindings/jax_front_test.sh.
add_executable(jax_calls bindings/jax/tests/calls.c)
set_target_properties(jax_calls PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_include_directories(jax_calls PRIVATE bindings/jax include)
target_compile_options(jax_calls PRIVATE ${test_optimization})
target_link_libraries(jax_calls PRIVATE Threads::Threads m ${CMAKE_DL_LIBS})
add_dependencies(jax_calls tutti_jax)
add_dependencies(tested jax_calls)

file(GLOB_RECURSE script_tests CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} tests/*_test.sh)
foreach(source IN LISTS script_tests)
    string(REGEX REPLACE "_test\\.sh$" "" test ${source})
    add_test(NAME ${test} COMMAND bash ${CMAKE_SOURCE_DIR}/${source})
    tutti_describe_test(${test} ${CMAKE_SOURCE_DIR}/${source})
endforeach()
