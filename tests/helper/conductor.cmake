# The conductor: its pure parts, and whole runs with real worker processes against simulated hosts.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
set(conductor_includes ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib)

add_executable(conductor_pure conductor_pure.c
  ${PROJECT_SOURCE_DIR}/src/helper/judge.c ${PROJECT_SOURCE_DIR}/src/helper/judge_say.c
  ${PROJECT_SOURCE_DIR}/src/helper/schedule.c ${PROJECT_SOURCE_DIR}/src/helper/tally.c)
target_include_directories(conductor_pure PRIVATE ${conductor_includes})
target_link_libraries(conductor_pure PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_test(NAME conductor_pure COMMAND conductor_pure)

add_executable(conductor_run conductor_run.c conductor_player.c conductor_hosts.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(conductor_run PRIVATE ${conductor_includes})
target_link_libraries(conductor_run PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_dependencies(conductor_run p2psafe-helper p2psafe_sim_cuda p2psafe_sim_nvml)
add_test(NAME conductor_run COMMAND conductor_run)
set_tests_properties(conductor_run PROPERTIES TIMEOUT 600 RUN_SERIAL ON ENVIRONMENT "P2S_TEST_HELPER=${P2PSAFE_LIBEXEC}/p2psafe-helper")

add_executable(conductor_legs conductor_legs.c conductor_player.c conductor_hosts.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(conductor_legs PRIVATE ${conductor_includes})
target_link_libraries(conductor_legs PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_dependencies(conductor_legs p2psafe-helper p2psafe_sim_cuda p2psafe_sim_nvml)
add_test(NAME conductor_legs COMMAND conductor_legs)
set_tests_properties(conductor_legs PROPERTIES TIMEOUT 600 RUN_SERIAL ON ENVIRONMENT "P2S_TEST_HELPER=${P2PSAFE_LIBEXEC}/p2psafe-helper")

add_executable(conductor_odd conductor_odd.c conductor_player.c conductor_hosts.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(conductor_odd PRIVATE ${conductor_includes})
target_link_libraries(conductor_odd PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_dependencies(conductor_odd p2psafe-helper p2psafe_sim_cuda p2psafe_sim_nvml)
add_test(NAME conductor_odd COMMAND conductor_odd)
set_tests_properties(conductor_odd PROPERTIES TIMEOUT 600 ENVIRONMENT "P2S_TEST_HELPER=${P2PSAFE_LIBEXEC}/p2psafe-helper")

add_executable(conductor_thorough conductor_thorough.c conductor_player.c conductor_hosts.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(conductor_thorough PRIVATE ${conductor_includes})
target_link_libraries(conductor_thorough PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_dependencies(conductor_thorough p2psafe-helper p2psafe_sim_cuda p2psafe_sim_nvml)
add_test(NAME conductor_thorough COMMAND conductor_thorough)
set_tests_properties(conductor_thorough PROPERTIES TIMEOUT 600 ENVIRONMENT "P2S_TEST_HELPER=${P2PSAFE_LIBEXEC}/p2psafe-helper")

add_executable(conductor_measure conductor_measure.c conductor_player.c conductor_hosts.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(conductor_measure PRIVATE ${conductor_includes})
target_link_libraries(conductor_measure PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_dependencies(conductor_measure p2psafe-helper p2psafe_sim_cuda p2psafe_sim_nvml)
if(P2PSAFE_SANITIZE) # it shows memory errors, for which few GPUs do
  target_compile_definitions(conductor_measure PRIVATE FEW_GPUS)
endif()
add_test(NAME conductor_measure COMMAND conductor_measure)
set_tests_properties(conductor_measure PROPERTIES TIMEOUT 900 ENVIRONMENT "P2S_TEST_HELPER=${P2PSAFE_LIBEXEC}/p2psafe-helper")

add_executable(conductor_log conductor_log.c conductor_player.c conductor_hosts.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(conductor_log PRIVATE ${conductor_includes})
target_link_libraries(conductor_log PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_dependencies(conductor_log p2psafe-helper p2psafe_sim_cuda p2psafe_sim_nvml)
add_test(NAME conductor_log COMMAND conductor_log)
set_tests_properties(conductor_log PROPERTIES TIMEOUT 300 ENVIRONMENT "P2S_TEST_HELPER=${P2PSAFE_LIBEXEC}/p2psafe-helper")

add_executable(conductor_play EXCLUDE_FROM_ALL conductor_play.c conductor_player.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(conductor_play PRIVATE ${conductor_includes})
target_link_libraries(conductor_play PRIVATE p2psafe_warnings)
