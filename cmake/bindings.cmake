# libtutti_jax.so: what MPItrampoline in jaxlib loads (bindings/jax/front/front.h).

tutti_folder(jax bindings/jax/front
    collectives.c comm.c error.c handles.c messages.c missing.c product.c start.c types.c)
tutti_check_folders(bindings/jax/front)

set(jax_map ${CMAKE_SOURCE_DIR}/bindings/jax/front/front.map)
add_library(tutti_jax SHARED ${jax_files})
target_include_directories(tutti_jax PRIVATE bindings/jax include)
target_link_libraries(tutti_jax PRIVATE tutti Threads::Threads)
set_target_properties(tutti_jax PROPERTIES NO_SONAME ON LINK_DEPENDS ${jax_map})
target_link_options(tutti_jax PRIVATE "LINKER:--version-script=${jax_map}")

# In the wheel it stands in the package tutti_jax, and finds the library of the package tutti, which is there under its plain name.
if(SKBUILD)
    set_property(TARGET tutti PROPERTY VERSION)
    set_property(TARGET tutti PROPERTY SOVERSION)
    set_target_properties(tutti_jax PROPERTIES INSTALL_RPATH "$ORIGIN/../tutti")
    install(TARGETS tutti_jax LIBRARY DESTINATION tutti_jax COMPONENT python)
endif()
