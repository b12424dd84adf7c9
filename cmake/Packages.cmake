# Debian packages: `cpack -G DEB` in a build folder that was configured with -DCMAKE_INSTALL_PREFIX=/usr. One package per component,
# split so that only the helper, which links libpci, is under the GPL. docs/PACKAGING.md.
set(P2PSAFE_MAINTAINER "The libp2psafe authors <libp2psafe@localhost>" CACHE STRING "Maintainer field of the Debian packages")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME p2psafe)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/PackageStaged.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${P2PSAFE_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(files ${PROJECT_SOURCE_DIR}/packaging/debian)
set(made ${CMAKE_BINARY_DIR}/packaging)
configure_file(${files}/changelog.in ${made}/changelog @ONLY)
configure_file(${files}/shlibs.in ${made}/shlibs @ONLY)

# p2psafe_package(COMPONENT NAME SECTION LICENCE SUMMARY DESCRIPTION DEPENDS)
function(p2psafe_package component name section licence summary description depends)
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  # The first line is the synopsis.
  set(CPACK_COMPONENT_${key}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
  install(FILES ${files}/copyright.${licence} RENAME copyright DESTINATION share/doc/${name}
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${made}/changelog DESTINATION share/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

set(CPACK_COMPONENTS_ALL)
set(same "(= ${PROJECT_VERSION})")
set(library libp2psafe${PROJECT_VERSION_MAJOR})

p2psafe_package(lib ${library} libs mit
  "decides whether GPU peer-to-peer transfers are safe"
  "Inference servers call this library at their start. It tests every directed\npair of GPUs in child processes, keeps the result, and takes permission away\nfrom what was not proven."
  "p2psafe-helper ${same}")
set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA ${made}/shlibs ${files}/triggers)

p2psafe_package(helper p2psafe-helper utils gpl
  "helper program of libp2psafe"
  "The program that libp2psafe executes to look at PCI devices and to move data\nbetween GPUs. It links libpci and is therefore distributed under the GPL; the\nlibrary is not."
  "")
set(CPACK_DEBIAN_HELPER_PACKAGE_SUGGESTS "nvidia-driver")

p2psafe_package(dev libp2psafe-dev libdevel mit
  "development files of libp2psafe"
  "The header, the static archive, and the files for pkg-config and CMake."
  "${library} ${same}, libjansson-dev")

p2psafe_package(program p2psafe-tools utils mit
  "tests whether GPU peer-to-peer transfers are safe"
  "The p2psafe program: tests, explains, prints settings for frameworks, and\nstarts programs under the decision. With a systemd unit, not enabled, that\ndecides once per boot."
  "${library} ${same}, p2psafe-helper ${same}")

p2psafe_package(sim p2psafe-sim utils mit
  "simulated GPUs for tests of programs that use libp2psafe"
  "A simulated driver in a private folder, and three simulated machines in\n/usr/share/p2psafe/hosts: two healthy, one that loses what is transferred."
  "p2psafe-helper ${same}")

p2psafe_package(python python3-p2psafe python mit
  "Python access to libp2psafe"
  "A ctypes package: decide, report, and apply() for the environment of vLLM,\nSGLang and PyTorch programs."
  "python3 (>= 3.8), ${library} ${same}")
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings/python/p2psafe DESTINATION lib/python3/dist-packages
  COMPONENT python EXCLUDE_FROM_ALL PATTERN __pycache__ EXCLUDE)

foreach(host ok-2xh200-nvlink ok-8xpcie s01-founding-host)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/tests/hosts/${host} DESTINATION share/p2psafe/hosts COMPONENT sim EXCLUDE_FROM_ALL)
endforeach()

if(TARGET p2psafe_nccl_env)
  p2psafe_package(plugin libnccl-env-p2psafe libs mit
    "NCCL environment plugin that obeys the decision of libp2psafe"
    "With NCCL_ENV_PLUGIN=p2psafe, or that line in /etc/nccl.conf, NCCL 2.28.7 and\nlater uses peer transfers only where they were proven safe."
    "p2psafe-helper ${same}")
endif()

include(CPack)
