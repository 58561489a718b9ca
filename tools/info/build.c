#include "build.h"

const struct build build = {.compiler = BUILD_COMPILER,
                            .type = BUILD_TYPE,
                            .flags = BUILD_FLAGS,
                            .sanitizers = BUILD_SANITIZERS,
                            .processor = BUILD_PROCESSOR,
                            .parts = {{"OpenSSL", "openssl", BUILD_OPENSSL},
                                      {"jansson", "jansson", BUILD_JANSSON},
                                      {"hwloc", "hwloc", BUILD_HWLOC},
                                      {"expat", "expat", BUILD_EXPAT},
                                      {"PMIx", "pmix", BUILD_PMIX},
                                      {"libfabric", "libfabric", BUILD_LIBFABRIC}}};
