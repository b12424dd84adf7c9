add_library(p2psafe_warnings INTERFACE)
target_compile_options(p2psafe_warnings INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wundef)
if(P2PSAFE_WERROR)
  target_compile_options(p2psafe_warnings INTERFACE -Werror)
endif()
