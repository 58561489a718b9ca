# Which packages are here, and what is built without the others. The library loads PMIx, libfabric and jansson when it needs them
# (src/bootstrap/pmix_service.h, src/transport/ofi/library.h, src/format/jansson.h): of these only headers count. Sets
#     TUTTI_OPENSSL, PMIX_INCLUDE_DIR, OFI_INCLUDE_DIR, JANSSON_INCLUDE_DIR   what the library has
#     TUTTI_TOPOLOGY, TUTTI_EXPAT              whether tools look at topologies and read them; whether they read XML
#     crypto_include_dir, crypto_library       OpenSSL
#     jansson_include_dir                      JANSSON_INCLUDE_DIR, or nothing
#     bundled_jansson                          jansson, if the library is linked with it instead of loading it
#     studio_include_dirs, studio_libraries    what studio/ is compiled and linked with

find_package(Threads REQUIRED)

# Wheels that go to other machines (scripts/wheels) bring what these may lack. OpenSSL, jansson and expat become part of the programs, and
# OpenSSL becomes part of the library, which exports none of its functions: a process may have another OpenSSL beside it. The archive of
# jansson is for programs alone, so the library is linked with the shared one, and auditwheel puts that into the wheel.
option(TUTTI_BUNDLED "Link OpenSSL, jansson and expat from archives: for wheels" OFF)

# OpenSSL authenticates who comes from other hosts, and encrypts where that is wanted. A cross build, for which its package is
# not to be had without making another architecture part of the system, does without: see src/bootstrap/mac.h, src/os/tls.h.
option(TUTTI_OPENSSL "Authenticate connections between hosts; without it there are none" ON)
if(TUTTI_OPENSSL)
    set(OPENSSL_USE_STATIC_LIBS ${TUTTI_BUNDLED})
    find_package(OpenSSL 1.1.1 COMPONENTS Crypto SSL)
    if(NOT OPENSSL_FOUND)
        message(FATAL_ERROR "OpenSSL is needed (Debian: libssl-dev), or -DTUTTI_OPENSSL=OFF: then ranks of one host can meet")
    endif()
    set(crypto_include_dir ${OPENSSL_INCLUDE_DIR})
    set(crypto_library ${OPENSSL_SSL_LIBRARY} ${OPENSSL_CRYPTO_LIBRARY})
    set(tutti_pc_crypto "-lssl -lcrypto ") # what the archive's users link, by name: they have their own OpenSSL
    set(tutti_config_crypto "ssl;crypto;")
else()
    message(STATUS "without OpenSSL: ranks of several hosts cannot meet")
endif()

find_path(PMIX_INCLUDE_DIR pmix.h HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pmix2/include)
if(NOT PMIX_INCLUDE_DIR)
    message(STATUS "pmix.h is not here (Debian: libpmix-dev): no exchange through PMIx")
endif()

find_path(OFI_INCLUDE_DIR rdma/fabric.h)
if(NOT OFI_INCLUDE_DIR)
    message(STATUS "rdma/fabric.h is not here (Debian: libfabric-dev): no RDMA cards between hosts")
endif()

find_path(HWLOC_INCLUDE_DIR hwloc.h)
find_library(HWLOC_LIBRARY hwloc)
find_path(JANSSON_INCLUDE_DIR jansson.h)
if(TUTTI_BUNDLED)
    find_library(JANSSON_LIBRARY libjansson.a)
else()
    find_library(JANSSON_LIBRARY jansson)
endif()
find_path(EXPAT_INCLUDE_DIR expat.h)
if(SKBUILD OR TUTTI_BUNDLED)
    find_library(EXPAT_LIBRARY libexpat.a) # programs of a wheel need nothing that a machine may lack
else()
    find_library(EXPAT_LIBRARY expat)
endif()
mark_as_advanced(OFI_INCLUDE_DIR HWLOC_INCLUDE_DIR HWLOC_LIBRARY JANSSON_INCLUDE_DIR JANSSON_LIBRARY EXPAT_INCLUDE_DIR EXPAT_LIBRARY)

set(studio_libraries "")
set(studio_include_dirs "")
set(jansson_include_dir "")
if(JANSSON_INCLUDE_DIR)
    set(jansson_include_dir ${JANSSON_INCLUDE_DIR})
endif()

if(TUTTI_BUNDLED)
    if(NOT TUTTI_OPENSSL OR NOT JANSSON_LIBRARY OR NOT EXPAT_LIBRARY OR NOT HWLOC_LIBRARY)
        message(FATAL_ERROR "TUTTI_BUNDLED needs libcrypto.a, libssl.a, libjansson.a, libexpat.a and hwloc"
            " (Debian: libssl-dev libjansson-dev libexpat1-dev libhwloc-dev)")
    endif()
    find_library(bundled_jansson jansson REQUIRED)
    # scripts/wheels says whose they are.
    file(WRITE ${CMAKE_BINARY_DIR}/bundled.txt "${OPENSSL_SSL_LIBRARY}\n${OPENSSL_CRYPTO_LIBRARY}\n${JANSSON_LIBRARY}\n${EXPAT_LIBRARY}\n")
endif()

set(TUTTI_TOPOLOGY OFF)
if(HWLOC_INCLUDE_DIR AND HWLOC_LIBRARY AND JANSSON_INCLUDE_DIR AND JANSSON_LIBRARY)
    set(TUTTI_TOPOLOGY ON)
    list(APPEND studio_libraries ${HWLOC_LIBRARY} ${JANSSON_LIBRARY})
    list(APPEND studio_include_dirs ${HWLOC_INCLUDE_DIR} ${JANSSON_INCLUDE_DIR})
elseif(CMAKE_CROSSCOMPILING OR SKBUILD) # a compiler for another machine seldom has its libraries; a wheel goes without
    message(STATUS "hwloc or jansson is not here: no tutti-topo, tutti-trace, tutti-tune or tutti-synth")
else()
    message(FATAL_ERROR "Tutti needs hwloc and jansson (Debian: libhwloc-dev libjansson-dev)")
endif()

set(TUTTI_EXPAT OFF)
if(EXPAT_INCLUDE_DIR AND EXPAT_LIBRARY)
    set(TUTTI_EXPAT ON)
    list(APPEND studio_libraries ${EXPAT_LIBRARY})
    list(APPEND studio_include_dirs ${EXPAT_INCLUDE_DIR})
elseif(TUTTI_TOPOLOGY)
    message(STATUS "expat is not here: tutti-topo reads no XML of NCCL (Debian: libexpat1-dev)")
endif()
