# Tests of the simulated driver through its exported functions.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
foreach(name memory mp faults process)
  add_executable(test_sim_${name} ${CMAKE_CURRENT_LIST_DIR}/sim_${name}.c ${CMAKE_CURRENT_LIST_DIR}/sim_rig.c)
  target_include_directories(test_sim_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib
    ${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_LIST_DIR})
  target_compile_definitions(test_sim_${name} PRIVATE _GNU_SOURCE SIM_LIBRARY="$<TARGET_FILE:p2psafe_sim_cuda>")
  target_link_libraries(test_sim_${name} PRIVATE p2psafe_warnings PkgConfig::CMOCKA ${CMAKE_DL_LIBS})
  add_dependencies(test_sim_${name} p2psafe_sim_cuda)
  add_test(NAME sim.${name} COMMAND test_sim_${name})
  set_tests_properties(sim.${name} PROPERTIES TIMEOUT 180 LABELS sim)
endforeach()
