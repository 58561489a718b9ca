# Every X_fuzz.c of src/, studio/, tests/, train/, tools/ and examples/ defines LLVMFuzzerTestOneInput and becomes the program
# FOLDER_X_fuzz.  As a test it runs for TUTTI_FUZZ_SECONDS, or for TUTTI_FUZZ_RUNS inputs if these end first, starting from
# tests/corpus/FOLDER_X/ (or tests/corpus/X/).  Inputs that it finds stay in the build folder; one that fails is left in BUILD/fuzz/NAME/.

if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "the fuzzers need clang: cmake --preset fuzz")
endif()
set(TUTTI_FUZZ_SECONDS 10 CACHE STRING "How long each fuzzer runs as a test")
set(TUTTI_FUZZ_RUNS -1 CACHE STRING "How many inputs each fuzzer has as a test; -1: as many as there is time for")
add_custom_target(fuzzers) # and nothing else, for ./check

# The library reports which branches it takes, the fuzzer's program brings main().
target_compile_options(tutti_objects PRIVATE -fsanitize=fuzzer-no-link)
target_compile_options(tutti_studio_objects PRIVATE -fsanitize=fuzzer-no-link)

# The files of a fuzzer beside its own: PROGRAM_files.
tutti_folder(examples_gpt_tokenizer_fuzz examples/gpt tokenizer.c tokenizer_train.c)
tutti_folder(health_remote_rank_fuzz tests/worlds tcp_control.c)
tutti_folder(tests_virtual_card_card_fuzz tests/virtual_card card_remote.c device.c queue_wire.c regions.c socket_wire.c)
tutti_folder(tools_trace_report_fuzz tools/trace IF TUTTI_TOPOLOGY report_fuzz.c) # as tutti-trace
tutti_take_all(tools_trace_report_fuzz tools/trace)
list(REMOVE_ITEM tools_trace_report_fuzz_files tools/trace/main.c)

file(GLOB_RECURSE fuzzers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} src/*_fuzz.c studio/*_fuzz.c train/*_fuzz.c tools/*_fuzz.c tests/*_fuzz.c examples/*_fuzz.c)
foreach(source IN LISTS fuzzers)
    if(source IN_LIST tests_left_out)
        continue()
    endif()
    string(REGEX REPLACE "^(src/|)(.*)_fuzz\\.c$" "\\2" path ${source})
    get_filename_component(short ${path} NAME)
    string(REPLACE "/" "_" name ${path})
    add_executable(${name}_fuzz ${source} ${${name}_fuzz_files})
    target_compile_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name}_fuzz PRIVATE tutti_internal)
    add_dependencies(fuzzers ${name}_fuzz)

    set(found ${CMAKE_BINARY_DIR}/fuzz/${name})
    file(MAKE_DIRECTORY ${found}/corpus)
    set(corpora ${found}/corpus)
    foreach(folder ${name} ${short})
        if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/corpus/${folder})
            list(APPEND corpora ${CMAKE_SOURCE_DIR}/tests/corpus/${folder})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES corpora)
    add_test(NAME fuzz/${path} COMMAND ${name}_fuzz
        -max_total_time=${TUTTI_FUZZ_SECONDS} -runs=${TUTTI_FUZZ_RUNS} -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
        -artifact_prefix=${found}/ ${corpora})
    math(EXPR timeout "${TUTTI_FUZZ_SECONDS} + 120")
    set_tests_properties(fuzz/${path} PROPERTIES TIMEOUT ${timeout} PROCESSORS 3) # see cmake/tests.cmake
endforeach()
target_include_directories(tests_bindings_tensorflow_proto_fuzz PRIVATE bindings/tensorflow) # it includes a source of the front
