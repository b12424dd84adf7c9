# The conductor: its pure parts, and whole runs with real worker processes against simulated hosts.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
set(conductor_includes ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib)

add_executable(conductor_pure conductor_pure.c
  ${PROJECT_SOURCE_DIR}/src/helper/cpus.c ${PROJECT_SOURCE_DIR}/src/helper/judge.c ${PROJECT_SOURCE_DIR}/src/helper/judge_say.c
  ${PROJECT_SOURCE_DIR}/src/helper/schedule.c ${PROJECT_SOURCE_DIR}/src/helper/tally.c)
target_include_directories(conductor_pure PRIVATE ${conductor_includes})
target_link_libraries(conductor_pure PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_test(NAME conductor_pure COMMAND conductor_pure)

# Parts of the conductor in the test's own process: what streams a large buffer, over arrays instead of GPUs; what looks for torn
# words, over kernels whose results are played; what ends where no leg tells of it;
# channels at the deadline; rings that staged transfers are measured through.
function(conductor_part name)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/src/helper/)
  add_executable(${name} ${name}.c $<TARGET_OBJECTS:p2psafe_core> ${ARGN})
  target_include_directories(${name} PRIVATE ${conductor_includes})
  target_link_libraries(${name} PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
  add_test(NAME ${name} COMMAND ${name})
endfunction()

conductor_part(conductor_stream judge.c judge_say.c legs.c legs_look.c legs_stream.c)
conductor_part(conductor_chan conductor_chan.c ops.c)
conductor_part(conductor_ring measure_host.c)
conductor_part(conductor_dead judge.c judge_say.c legs.c legs_both.c legs_dead.c legs_load.c legs_look.c)
conductor_part(conductor_tear judge.c judge_say.c legs.c legs_both.c legs_look.c legs_message.c legs_word.c)

# conductor_test(NAME SECONDS [PROPERTY VALUE...])
function(conductor_test name seconds)
  add_executable(${name} ${name}.c conductor_player.c conductor_hosts.c $<TARGET_OBJECTS:p2psafe_core>)
  target_include_directories(${name} PRIVATE ${conductor_includes})
  target_link_libraries(${name} PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
  add_dependencies(${name} p2psafe-helper p2psafe_sim_cuda p2psafe_sim_nvml)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds} ENVIRONMENT "P2S_TEST_HELPER=${P2PSAFE_LIBEXEC}/p2psafe-helper" ${ARGN})
endfunction()

conductor_test(conductor_run 600 RUN_SERIAL ON)
conductor_test(conductor_legs 600 RUN_SERIAL ON)
conductor_test(conductor_odd 600)
conductor_test(conductor_thorough 600)
conductor_test(conductor_measure 900)
if(P2PSAFE_SANITIZE) # it shows memory errors, for which few GPUs do
  target_compile_definitions(conductor_measure PRIVATE FEW_GPUS)
endif()
conductor_test(conductor_log 300)

add_executable(conductor_play EXCLUDE_FROM_ALL conductor_play.c conductor_player.c $<TARGET_OBJECTS:p2psafe_core>)
target_include_directories(conductor_play PRIVATE ${conductor_includes})
target_link_libraries(conductor_play PRIVATE p2psafe_warnings)
