# The library three times from one set of objects:
#     tutti_internal   every symbol, for tests and tools, with studio/, which only these need; never installed
#     tutti            libtutti.so, exports tutti_* only
#     tutti_static     libtutti.a, one object in which everything but tutti_* is local
# With a sanitizer also as tutti_tested: what tutti_internal has, shared. Hundreds of tests take minutes to link with all of it.

add_library(tutti_objects OBJECT ${library_files})
target_include_directories(tutti_objects PUBLIC src include)
target_include_directories(tutti_objects SYSTEM PRIVATE ${crypto_include_dir} ${jansson_include_dir})

add_library(tutti_studio_objects OBJECT ${studio_files})
target_include_directories(tutti_studio_objects PUBLIC . src include)
target_include_directories(tutti_studio_objects SYSTEM PRIVATE ${studio_include_dirs})

add_library(tutti_internal STATIC $<TARGET_OBJECTS:tutti_objects> $<TARGET_OBJECTS:tutti_studio_objects>)
target_include_directories(tutti_internal PUBLIC . src include)
target_link_libraries(tutti_internal PUBLIC ${crypto_library} Threads::Threads m ${CMAKE_DL_LIBS})
if(studio_libraries) # programs that do not look at topologies do not load what does
    target_link_libraries(tutti_internal PUBLIC
        -Wl,--push-state,--as-needed ${studio_libraries} -Wl,--pop-state)
endif()
if(TUTTI_BUNDLED)
    list(TRANSFORM bundled_files PREPEND ${CMAKE_SOURCE_DIR}/)
    target_sources(tutti_internal INTERFACE ${bundled_files})
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
if(bundled_jansson)
    target_link_libraries(tutti PRIVATE ${bundled_jansson})
endif()
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
