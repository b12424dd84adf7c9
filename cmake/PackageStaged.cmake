# Run by CPack over the files that were laid out, before they are packed: what Debian's policy wants and an installation
# elsewhere does not. The run path goes (the library is where the loader looks), manual pages and changelogs are compressed.
cmake_policy(VERSION 3.25) # globs do not follow links
file(GLOB_RECURSE staged LIST_DIRECTORIES false "${CPACK_TEMPORARY_DIRECTORY}/*")
foreach(path IN LISTS staged)
  if(path MATCHES "/usr/bin/p2psafe$")
    file(RPATH_REMOVE FILE "${path}")
  elseif(path MATCHES "/share/(man/man[0-9]/[^/]*[.][0-9]|doc/[^/]*/changelog)$")
    execute_process(COMMAND gzip -9n "${path}" COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
