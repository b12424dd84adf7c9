# The workers: PTX text, driver declarations, and every operation against the simulated driver.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_package(Threads REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
set(worker_includes
  ${PROJECT_SOURCE_DIR}/tests/helper ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib)

set(worker_ptx ${PROJECT_SOURCE_DIR}/src/helper/kernels.ptx ${PROJECT_SOURCE_DIR}/src/helper/kernels_messages.ptx
  ${PROJECT_SOURCE_DIR}/src/helper/kernels_measure.ptx)
add_test(NAME worker_ptx_allowed COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/worker_ptx.py allow ${worker_ptx})
add_test(NAME worker_ptx_assembles COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/worker_ptx.py ptxas ${worker_ptx})
set_tests_properties(worker_ptx_assembles PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME worker_ptx_runs COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/worker_ptx_run.py ${worker_ptx})
set_tests_properties(worker_ptx_runs PROPERTIES TIMEOUT 300)

# The vendor's header, where installed, is only read here.
find_path(CUDA_HEADER cuda.h PATHS /usr/local/cuda/include)
add_executable(worker_abi worker_abi.c)
target_include_directories(worker_abi PRIVATE ${worker_includes})
if(CUDA_HEADER)
  target_include_directories(worker_abi SYSTEM PRIVATE ${CUDA_HEADER})
endif()
add_test(NAME worker_abi COMMAND worker_abi)
set_tests_properties(worker_abi PROPERTIES SKIP_RETURN_CODE 77)

add_executable(worker_process worker_process.c $<TARGET_OBJECTS:p2psafe_worker> $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(worker_process PRIVATE ${worker_includes})
find_library(NUMA_LIBRARY numa REQUIRED)
target_link_libraries(worker_process PRIVATE p2psafe_warnings Threads::Threads ${CMAKE_DL_LIBS} ${NUMA_LIBRARY})

add_executable(worker_cubins worker_cubins.c $<TARGET_OBJECTS:p2psafe_worker> $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(worker_cubins PRIVATE ${worker_includes})
target_link_libraries(worker_cubins PRIVATE p2psafe_warnings PkgConfig::CMOCKA Threads::Threads ${CMAKE_DL_LIBS} ${NUMA_LIBRARY})
add_test(NAME worker_cubins COMMAND worker_cubins)

add_executable(worker_near worker_near.c ${PROJECT_SOURCE_DIR}/src/helper/near.c)
target_include_directories(worker_near PRIVATE ${worker_includes})
target_link_libraries(worker_near PRIVATE p2psafe_warnings PkgConfig::CMOCKA ${NUMA_LIBRARY})
add_test(NAME worker_near COMMAND worker_near)

add_library(p2psafe_worker_drive STATIC worker_drive.c ${PROJECT_SOURCE_DIR}/src/helper/ops.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(p2psafe_worker_drive PUBLIC ${worker_includes})
target_link_libraries(p2psafe_worker_drive PRIVATE p2psafe_warnings)

add_executable(worker_ops worker_ops.c)
target_link_libraries(worker_ops PRIVATE p2psafe_warnings p2psafe_worker_drive PkgConfig::CMOCKA)
add_test(NAME worker_ops COMMAND worker_ops $<TARGET_FILE:worker_process> ${P2PSAFE_LIBEXEC}/sim/libcuda.so.1)
set_tests_properties(worker_ops PROPERTIES TIMEOUT 120)

add_executable(worker_lies worker_lies.c)
target_link_libraries(worker_lies PRIVATE p2psafe_warnings p2psafe_worker_drive PkgConfig::CMOCKA)
add_test(NAME worker_lies COMMAND worker_lies $<TARGET_FILE:worker_process> ${P2PSAFE_LIBEXEC}/sim/libcuda.so.1)
set_tests_properties(worker_lies PROPERTIES TIMEOUT 120)

add_executable(worker_measure worker_measure.c ${PROJECT_SOURCE_DIR}/src/helper/near.c)
target_link_libraries(worker_measure PRIVATE p2psafe_warnings p2psafe_worker_drive PkgConfig::CMOCKA ${NUMA_LIBRARY})
add_test(NAME worker_measure COMMAND worker_measure $<TARGET_FILE:worker_process> ${P2PSAFE_LIBEXEC}/sim/libcuda.so.1)
set_tests_properties(worker_measure PROPERTIES TIMEOUT 120)
