# The library three times from one set of objects:
#     tutti_internal   every symbol, for tests and tools, with studio/, which only these need; never installed
#     tutti            libtutti.so, exports tutti_* only
#     tutti_static     libtutti.a, one object in which everything but tutti_* is local
# With a sanitizer also as tutti_tested: what tutti_internal has, shared. Hundreds of tests take minutes to link with all of it.

file(GLOB sources CONFIGURE_DEPENDS src/*/*.c src/*/*/*.c train/*.c)
list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.c$")
# The tables of paths by the names of their transports, for those who have none open.
list(FILTER sources EXCLUDE REGEX "/src/transport/paths\\.c$")
set(named_paths src/transport/paths.c)

# src/kernel: the scalar twin is the reference that no optimiser may reorder; a SIMD file is compiled for its
# instruction set and called only where the processor has it.  No file may fuse a multiply and an add: every
# kernel gives the scalar twin's bits.
file(GLOB scalar_kernels CONFIGURE_DEPENDS src/kernel/*_scalar.c)
file(GLOB avx2_kernels CONFIGURE_DEPENDS src/kernel/*_avx2.c)
file(GLOB avx512_kernels CONFIGURE_DEPENDS src/kernel/*_avx512.c)
file(GLOB neon_kernels CONFIGURE_DEPENDS src/kernel/*_neon.c)
set_source_files_properties(${scalar_kernels} PROPERTIES COMPILE_OPTIONS
    "-fno-tree-vectorize;-fno-tree-slp-vectorize;-ffp-contract=off")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set_source_files_properties(${avx2_kernels} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mf16c;-ffp-contract=off")
    set_source_files_properties(${avx512_kernels} PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mprefer-vector-width=512;-ffp-contract=off")
else()
    list(REMOVE_ITEM sources ${avx2_kernels} ${avx512_kernels})
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set_source_files_properties(${neon_kernels} PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")
else()
    list(REMOVE_ITEM sources ${neon_kernels})
endif()

# tutti_embed(SOURCE FILE...): files beside a source, which has them as constants (base/embedded.h).
function(tutti_embed source)
    get_filename_component(folder ${source} DIRECTORY)
    list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE files)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/${source} PROPERTIES
        COMPILE_DEFINITIONS EMBEDDED_FOLDER="${CMAKE_SOURCE_DIR}/${folder}/" OBJECT_DEPENDS "${files}")
endfunction()

# Kernels of devices are a text in the library (gpu/kernels.h).
tutti_embed(src/gpu/kernels.c kernels.ptx)
tutti_embed(studio/plan/player_page.c player.html player.css player.js)
# An element's bits must not depend on the range that it is computed in.
set_source_files_properties(train/shards_update.c PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")

# PMIx is loaded when it is needed (bootstrap/pmix_service.h); only its header counts here.
find_path(PMIX_INCLUDE_DIR pmix.h HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include)
if(PMIX_INCLUDE_DIR)
    list(FILTER sources EXCLUDE REGEX "/bootstrap/pmix_service_absent\\.c$")
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/bootstrap/pmix_service.c PROPERTIES
        COMPILE_OPTIONS "-isystem${PMIX_INCLUDE_DIR}")
else()
    message(STATUS "pmix.h is not here (Debian: libpmix-dev): no exchange through PMIx")
    list(FILTER sources EXCLUDE REGEX "/bootstrap/pmix_service\\.c$")
endif()

# So is libfabric (transport/ofi/library.h).
find_path(OFI_INCLUDE_DIR rdma/fabric.h)
mark_as_advanced(OFI_INCLUDE_DIR)
if(OFI_INCLUDE_DIR)
    list(FILTER sources EXCLUDE REGEX "/transport/ofi/(library|ofi)_absent\\.c$")
    file(GLOB ofi_users CONFIGURE_DEPENDS src/transport/ofi/*.c)
    if(NOT OFI_INCLUDE_DIR IN_LIST CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES)
        set_source_files_properties(${ofi_users} PROPERTIES COMPILE_OPTIONS "-isystem${OFI_INCLUDE_DIR}")
    endif()
else()
    message(STATUS "rdma/fabric.h is not here (Debian: libfabric-dev): no RDMA cards between hosts")
    list(FILTER sources EXCLUDE REGEX "/transport/ofi/(library|offers|calls|device(_[a-z]+)?|ofi|provider|regions)\\.c$")
endif()

# Kernels of vectors take minutes to compile with sanitizers.
if(TUTTI_SANITIZE MATCHES "thread") # ranks use the scalar kernel then (cmake/tests.cmake)
    set_property(SOURCE ${avx2_kernels} ${avx512_kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=thread)
elseif(TUTTI_SANITIZE) # what vectors compute is defined for all values; what they read and write is watched
    set_property(SOURCE ${avx2_kernels} ${avx512_kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)
endif()
if(TUTTI_FUZZ) # kernels parse nothing, and clang takes minutes to instrument them
    file(GLOB kernels CONFIGURE_DEPENDS src/kernel/*.c)
    set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
endif()

# OpenSSL authenticates who comes from other hosts, and encrypts where that is wanted. A cross build, for which its package is
# not to be had without making another architecture part of the system, does without: see src/bootstrap/mac.h, src/os/tls.h.
option(TUTTI_OPENSSL "Authenticate connections between hosts; without it there are none" ON)
if(TUTTI_OPENSSL)
    find_package(OpenSSL 1.1.1 COMPONENTS Crypto SSL)
    if(NOT OPENSSL_FOUND)
        message(FATAL_ERROR "OpenSSL is needed (Debian: libssl-dev), or -DTUTTI_OPENSSL=OFF: then ranks of one host can meet")
    endif()
    set(crypto_include_dir ${OPENSSL_INCLUDE_DIR})
    set(crypto_library ${OPENSSL_SSL_LIBRARY} ${OPENSSL_CRYPTO_LIBRARY})
    set(tutti_pc_crypto "-lssl -lcrypto ") # what the archive's users link, by name: they have their own OpenSSL
    set(tutti_config_crypto "ssl;crypto;")
    list(FILTER sources EXCLUDE REGEX "/(bootstrap/mac|os/tls)_absent\\.c$")
else()
    message(STATUS "without OpenSSL: ranks of several hosts cannot meet")
    list(FILTER sources EXCLUDE REGEX "/(bootstrap/mac|os/tls)_openssl\\.c$")
endif()

find_package(Threads REQUIRED)

# The library reads its own files with jansson, which it loads when it is needed (src/format/jansson.h).
include(cmake/studio.cmake)
if(jansson_include_dir)
    list(FILTER sources EXCLUDE REGEX "/src/format/json_files_absent\\.c$")
else()
    list(FILTER sources EXCLUDE REGEX "/src/format/(jansson|json_(part|place|text)|calibration_.*|table_.*)\\.c$")
endif()

add_library(tutti_objects OBJECT ${sources})
target_include_directories(tutti_objects PUBLIC src include)
target_include_directories(tutti_objects SYSTEM PRIVATE ${crypto_include_dir} ${jansson_include_dir})

add_library(tutti_studio_objects OBJECT ${studio_sources} ${named_paths})
target_include_directories(tutti_studio_objects PUBLIC . src include)
target_include_directories(tutti_studio_objects SYSTEM PRIVATE ${studio_include_dirs})

add_library(tutti_internal STATIC $<TARGET_OBJECTS:tutti_objects> $<TARGET_OBJECTS:tutti_studio_objects>)
target_include_directories(tutti_internal PUBLIC . src include)
target_link_libraries(tutti_internal PUBLIC ${crypto_library} Threads::Threads m ${CMAKE_DL_LIBS})
if(studio_libraries) # programs that do not look at topologies do not load what does
    target_link_libraries(tutti_internal PUBLIC
        -Wl,--push-state,--as-needed ${studio_libraries} -Wl,--pop-state)
endif()

if(TUTTI_SANITIZE)
    add_library(tutti_tested SHARED EXCLUDE_FROM_ALL $<TARGET_OBJECTS:tutti_objects> $<TARGET_OBJECTS:tutti_studio_objects>)
    target_include_directories(tutti_tested PUBLIC . src include)
    target_link_libraries(tutti_tested PUBLIC $<TARGET_PROPERTY:tutti_internal,INTERFACE_LINK_LIBRARIES>)
endif()

set(symbol_map ${CMAKE_SOURCE_DIR}/src/tutti.map)
add_library(tutti SHARED $<TARGET_OBJECTS:tutti_objects>)
add_library(Tutti::tutti ALIAS tutti)
set_target_properties(tutti PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${symbol_map})
target_link_options(tutti PRIVATE "LINKER:--version-script=${symbol_map}")
if(NOT TUTTI_SANITIZE) # a sanitizer's functions are found in the program
    target_link_options(tutti PRIVATE LINKER:-z,defs)
endif()
target_link_libraries(tutti PRIVATE ${crypto_library} Threads::Threads m ${CMAKE_DL_LIBS})
target_include_directories(tutti PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(static_library ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libtutti.a)
add_custom_command(OUTPUT ${static_library}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}
    COMMAND ${CMAKE_LINKER} -r -o tutti.o $<TARGET_OBJECTS:tutti_objects>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden tutti.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${static_library}
    COMMAND ${CMAKE_AR} rcsD ${static_library} tutti.o
    DEPENDS tutti_objects $<TARGET_OBJECTS:tutti_objects>
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Linking lib/libtutti.a")
add_custom_target(tutti_static ALL DEPENDS ${static_library})
