# cmake -DIN=kernels.ptx [-DMORE=kernels_messages.ptx] -DNAME=p2s_kernels_ptx -DOUT=kernels_ptx.c -P embed_ptx.cmake
# Turns the PTX text into a C array: comments and indentation dropped, NUL at the end. MORE is joined behind IN, without its
# header, so that the driver compiles one module. The text itself stays beside it as OUT.txt, for cubins.cmake.
file(READ "${IN}" text)
if(MORE)
  file(READ "${MORE}" more)
  string(REGEX REPLACE "\n\\.(version|target|address_size)[^\n]*" "" more "${more}")
  string(APPEND text "\n${more}")
endif()
string(REGEX REPLACE "//[^\n]*" "" text "${text}")
string(REGEX REPLACE "[ \t]*\n[ \t\n]*" "\n" text "${text}")
string(REGEX REPLACE "^\n" "" text "${text}")
file(WRITE "${OUT}.txt" "${text}")
file(READ "${OUT}.txt" hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE "${OUT}" "/* Made from PTX text. */\nextern const unsigned char ${NAME}[];\nconst unsigned char ${NAME}[] = {\n${bytes}0x00};\n")
