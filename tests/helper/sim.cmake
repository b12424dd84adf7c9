# Tests of the simulated driver through its exported functions, and of its reading of cuda.json.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(p2psafe_sim_test name)
  add_executable(test_sim_${name} ${CMAKE_CURRENT_LIST_DIR}/sim_${name}.c ${ARGN})
  target_include_directories(test_sim_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib
    ${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_LIST_DIR})
  target_compile_definitions(test_sim_${name} PRIVATE _GNU_SOURCE HOSTS="${PROJECT_SOURCE_DIR}/tests/hosts"
    SIM_LIBRARY="$<TARGET_FILE:p2psafe_sim_cuda>" NVML_LIBRARY="$<TARGET_FILE:p2psafe_sim_nvml>")
  target_link_libraries(test_sim_${name} PRIVATE p2psafe_warnings PkgConfig::CMOCKA PkgConfig::JANSSON ${CMAKE_DL_LIBS})
  add_dependencies(test_sim_${name} p2psafe_sim_cuda p2psafe_sim_nvml)
  add_test(NAME sim.${name} COMMAND test_sim_${name})
  set_tests_properties(sim.${name} PROPERTIES TIMEOUT 180 LABELS sim)
endfunction()

foreach(name memory mp faults conditions process)
  p2psafe_sim_test(${name} ${CMAKE_CURRENT_LIST_DIR}/sim_rig.c)
endforeach()
p2psafe_sim_test(config ${CMAKE_CURRENT_LIST_DIR}/sim_rig.c ${PROJECT_SOURCE_DIR}/src/sim/config.c
  ${PROJECT_SOURCE_DIR}/src/sim/config_faults.c ${PROJECT_SOURCE_DIR}/src/sim/config_speed.c ${PROJECT_SOURCE_DIR}/src/sim/keys.c $<TARGET_OBJECTS:p2psafe_core>)
p2psafe_sim_test(nvml)

# Own declarations against the vendor's header, where it is installed.
find_path(P2PSAFE_CUDA_INCLUDE cuda.h PATHS /usr/local/cuda/include /usr/include)
if(P2PSAFE_CUDA_INCLUDE)
  p2psafe_sim_test(header)
  target_include_directories(test_sim_header SYSTEM PRIVATE ${P2PSAFE_CUDA_INCLUDE})
endif()

# The host folders are what their descriptions make.
add_test(NAME sim.hosts COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/tools/mkhost.py --check)
set_tests_properties(sim.hosts PROPERTIES LABELS sim)
