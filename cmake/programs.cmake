# Tools and benchmarks see the internal library, examples only what a user sees.

add_custom_target(programs) # what ./demo builds
add_custom_target(tools)    # what a wheel has

# tools/NAME.c is the program NAME; tools/NAME_part.c belongs to it.
file(GLOB tool_sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/tools tools/*.c)
list(FILTER tool_sources EXCLUDE REGEX "_(test|fuzz)\\.c$")
topology_filter(tool_sources)
set(tools ${tool_sources})
list(FILTER tools EXCLUDE REGEX "_")
set(tools_built "")
foreach(source IN LISTS tools)
    get_filename_component(tool ${source} NAME_WE)
    set(parts ${tool_sources})
    list(FILTER parts INCLUDE REGEX "^${tool}(_.*)?\\.c$")
    list(TRANSFORM parts PREPEND tools/)
    add_executable(${tool} ${parts})
    target_include_directories(${tool} PRIVATE tools)
    target_link_libraries(${tool} PRIVATE tutti_internal)
    add_dependencies(programs ${tool})
    add_dependencies(tools ${tool})
    list(APPEND tools_built ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endforeach()

file(GLOB examples CONFIGURE_DEPENDS examples/*.c)
foreach(source IN LISTS examples)
    get_filename_component(example ${source} NAME_WE)
    add_executable(${example} ${source})
    target_link_libraries(${example} PRIVATE tutti Threads::Threads m)
    add_dependencies(programs ${example})
endforeach()

# Benchmarks of single parts; tutti-perf measures the whole.
file(GLOB benchmarks CONFIGURE_DEPENDS bench/*.c)
foreach(source IN LISTS benchmarks)
    get_filename_component(benchmark ${source} NAME_WE)
    add_executable(${benchmark} ${source})
    set_target_properties(${benchmark} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
    target_link_libraries(${benchmark} PRIVATE tutti_internal)
endforeach()
