# The host worker's pure parts: configuration space and paths.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
add_executable(host_pure host_pure.c ${PROJECT_SOURCE_DIR}/src/helper/host_config.c ${PROJECT_SOURCE_DIR}/src/helper/host_path.c)
target_include_directories(host_pure PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib)
target_link_libraries(host_pure PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_test(NAME host_pure COMMAND host_pure)

# Error counters along the way to a GPU.
add_executable(host_aer host_aer.c ${PROJECT_SOURCE_DIR}/src/helper/aer_counters.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(host_aer PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
  ${PROJECT_SOURCE_DIR}/src/lib)
target_link_libraries(host_aer PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_test(NAME host_aer COMMAND host_aer)

# Whose the processes on a GPU are. The library is this program: it exports what is asked for.
add_executable(host_nvml host_nvml.c ${PROJECT_SOURCE_DIR}/src/helper/nvml_facts.c $<TARGET_OBJECTS:p2psafe_core>)
set_target_properties(host_nvml PROPERTIES ENABLE_EXPORTS ON)
target_include_directories(host_nvml PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib)
target_link_libraries(host_nvml PRIVATE p2psafe_warnings PkgConfig::CMOCKA PkgConfig::JANSSON)
add_test(NAME host_nvml COMMAND host_nvml)

# What NVML says before the first byte decides who takes part.
add_executable(conductor_facts conductor_facts.c conductor_player.c conductor_hosts.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(conductor_facts PRIVATE
  ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib)
target_link_libraries(conductor_facts PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_dependencies(conductor_facts p2psafe-helper p2psafe_sim_cuda p2psafe_sim_nvml)
add_test(NAME conductor_facts COMMAND conductor_facts)
set_tests_properties(conductor_facts PROPERTIES TIMEOUT 300 ENVIRONMENT "P2S_TEST_HELPER=${P2PSAFE_LIBEXEC}/p2psafe-helper")

find_package(Python3 3.8 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME host.drop COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/drop.py $<TARGET_FILE:p2psafe-helper>)
  add_test(NAME host.file_size COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/file_size.py
    $<TARGET_FILE:p2psafe_program> ${PROJECT_SOURCE_DIR}/tests/hosts/ok-2xh200-nvlink)
  add_test(NAME host.environment COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/environment.py
    $<TARGET_FILE:p2psafe_program> ${PROJECT_SOURCE_DIR}/tests/hosts/ok-2xh200-nvlink)
  set_tests_properties(host.drop host.file_size host.environment PROPERTIES TIMEOUT 150 LABELS host)
endif()
