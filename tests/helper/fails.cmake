# The helper's own objects behind calls that fail: fails.c. In a folder of its own, with the simulator where it looks for it.
if(P2PSAFE_SANITIZE) # the sanitizers have these functions themselves
  return()
endif()
find_package(Threads REQUIRED)
pkg_check_modules(LIBPCI REQUIRED IMPORTED_TARGET libpci)
find_library(NUMA_LIBRARY numa REQUIRED)
set(fails_folder ${CMAKE_CURRENT_BINARY_DIR}/fails)
add_executable(p2psafe_failing_helper fails_calls.c $<TARGET_OBJECTS:p2psafe-helper> $<TARGET_OBJECTS:p2psafe_worker>
  $<TARGET_OBJECTS:p2psafe_core>)
target_link_libraries(p2psafe_failing_helper PRIVATE p2psafe_warnings Threads::Threads ${CMAKE_DL_LIBS} PkgConfig::LIBPCI
  ${NUMA_LIBRARY} PkgConfig::JANSSON)
set_target_properties(p2psafe_failing_helper PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${fails_folder} OUTPUT_NAME p2psafe-helper)
file(MAKE_DIRECTORY ${fails_folder})
file(CREATE_LINK ${P2PSAFE_LIBEXEC}/sim ${fails_folder}/sim SYMBOLIC)

add_executable(helper_fails fails.c)
target_link_libraries(helper_fails PRIVATE p2psafe p2psafe_warnings)
target_include_directories(helper_fails PRIVATE ${PROJECT_SOURCE_DIR}/src/lib)
add_dependencies(helper_fails p2psafe_failing_helper p2psafe_sim_cuda p2psafe_sim_nvml)
add_test(NAME helper.fails COMMAND helper_fails $<TARGET_FILE:p2psafe_failing_helper> ${PROJECT_SOURCE_DIR}/tests/hosts)
# Its limit is a deadline by the clock.
set_tests_properties(helper.fails PROPERTIES LABELS host TIMEOUT 600 RUN_SERIAL ON)
