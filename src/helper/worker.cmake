# What runs inside the gpu and peer worker processes.
set(kernels_c ${CMAKE_CURRENT_BINARY_DIR}/kernels_ptx.c)
add_custom_command(OUTPUT ${kernels_c} BYPRODUCTS ${kernels_c}.txt
  COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/kernels.ptx
          -DMORE=${CMAKE_CURRENT_SOURCE_DIR}/kernels_messages.ptx -DOUT=${kernels_c} -P ${CMAKE_CURRENT_SOURCE_DIR}/embed_ptx.cmake
  DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels.ptx ${CMAKE_CURRENT_SOURCE_DIR}/kernels_messages.ptx
          ${CMAKE_CURRENT_SOURCE_DIR}/embed_ptx.cmake VERBATIM)

find_package(Threads REQUIRED)
add_library(p2psafe_worker OBJECT
  buffers.c channel.c channel_init.c channel_mem.c channel_move.c channel_wait.c cuda_loader.c ops.c worker.c ${kernels_c})
target_include_directories(p2psafe_worker PUBLIC
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib)
target_link_libraries(p2psafe_worker PRIVATE p2psafe_warnings PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
