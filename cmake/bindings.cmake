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

# libtutti_tensorflow.so: kernels that TensorFlow takes for its collectives (bindings/tensorflow/front/kernels.c).

tutti_folder(tensorflow bindings/tensorflow/front
    communicators.c kernels.c order.c proto.c service.c)
tutti_check_folders(bindings/tensorflow/front)

add_library(tutti_tensorflow SHARED ${tensorflow_files})
target_include_directories(tutti_tensorflow PRIVATE bindings/tensorflow include)
target_link_libraries(tutti_tensorflow PRIVATE tutti Threads::Threads ${CMAKE_DL_LIBS})
target_compile_options(tutti_tensorflow PRIVATE -fvisibility=hidden)
set_target_properties(tutti_tensorflow PROPERTIES NO_SONAME ON)

# In the wheel they stand in the packages tutti_jax and tutti_tensorflow, and find the library of the package tutti, which is there under its plain name.
if(SKBUILD)
    set_property(TARGET tutti PROPERTY VERSION)
    set_property(TARGET tutti PROPERTY SOVERSION)
    foreach(front tutti_jax tutti_tensorflow)
        set_target_properties(${front} PROPERTIES INSTALL_RPATH "$ORIGIN/../tutti")
        install(TARGETS ${front} LIBRARY DESTINATION ${front} COMPONENT python)
    endforeach()
endif()
