# The host worker's pure parts: configuration space and paths.
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
add_executable(host_pure host_pure.c ${PROJECT_SOURCE_DIR}/src/helper/host_config.c ${PROJECT_SOURCE_DIR}/src/helper/host_path.c)
target_include_directories(host_pure PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/lib)
target_link_libraries(host_pure PRIVATE p2psafe_warnings PkgConfig::CMOCKA)
add_test(NAME host_pure COMMAND host_pure)
