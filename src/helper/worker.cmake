# What runs inside the gpu and peer worker processes.
set(kernels_c ${CMAKE_CURRENT_BINARY_DIR}/kernels_ptx.c)
add_custom_command(OUTPUT ${kernels_c} ${kernels_c}.txt
  COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/kernels.ptx -DNAME=p2s_kernels_ptx
          -DMORE=${CMAKE_CURRENT_SOURCE_DIR}/kernels_messages.ptx -DOUT=${kernels_c} -P ${CMAKE_CURRENT_SOURCE_DIR}/embed_ptx.cmake
  DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels.ptx ${CMAKE_CURRENT_SOURCE_DIR}/kernels_messages.ptx
          ${CMAKE_CURRENT_SOURCE_DIR}/embed_ptx.cmake VERBATIM)
set(measure_c ${CMAKE_CURRENT_BINARY_DIR}/kernels_measure_ptx.c)
add_custom_command(OUTPUT ${measure_c} ${measure_c}.txt
  COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/kernels_measure.ptx -DNAME=p2s_kernels_measure_ptx
          -DOUT=${measure_c} -P ${CMAKE_CURRENT_SOURCE_DIR}/embed_ptx.cmake
  DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels_measure.ptx ${CMAKE_CURRENT_SOURCE_DIR}/embed_ptx.cmake VERBATIM)

# Ready-made code of the kernels, so that no driver need compile them. Nothing depends on it.
set(P2PSAFE_CUBINS AUTO CACHE STRING "Embed ready-made code of the test kernels: AUTO (where ptxas is found), ON, OFF")
set_property(CACHE P2PSAFE_CUBINS PROPERTY STRINGS AUTO ON OFF)
set(ptxas "")
if(NOT P2PSAFE_CUBINS STREQUAL "OFF")
  find_program(P2PSAFE_PTXAS ptxas PATHS /usr/local/cuda/bin)
  if(P2PSAFE_PTXAS)
    set(ptxas ${P2PSAFE_PTXAS})
  elseif(NOT P2PSAFE_CUBINS STREQUAL "AUTO")
    message(FATAL_ERROR "P2PSAFE_CUBINS is ${P2PSAFE_CUBINS}, and there is no ptxas")
  endif()
endif()
string(COMPARE EQUAL "${P2PSAFE_CUBINS}" "ON" require_cubins)
set(cubins_c ${CMAKE_CURRENT_BINARY_DIR}/cubins.c)
add_custom_command(OUTPUT ${cubins_c}
  COMMAND ${CMAKE_COMMAND} -DPTXAS=${ptxas} -DTESTS=${kernels_c}.txt -DMEASURE=${measure_c}.txt -DOUT=${cubins_c}
          -DREQUIRE=${require_cubins} -P ${CMAKE_CURRENT_SOURCE_DIR}/cubins.cmake
  DEPENDS ${kernels_c}.txt ${measure_c}.txt ${CMAKE_CURRENT_SOURCE_DIR}/cubins.cmake VERBATIM)

find_package(Threads REQUIRED)
add_library(p2psafe_worker OBJECT
  buffers.c channel.c channel_init.c channel_host.c channel_measure.c channel_mem.c channel_module.c channel_move.c channel_stage.c channel_wait.c
  cuda_loader.c near.c ops.c worker.c ${kernels_c} ${measure_c} ${cubins_c})
target_include_directories(p2psafe_worker PUBLIC
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib)
target_link_libraries(p2psafe_worker PRIVATE p2psafe_warnings PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
