# cmake -DPTXAS=/usr/local/cuda/bin/ptxas -DTESTS=kernels_ptx.c.txt -DMEASURE=kernels_measure_ptx.c.txt -DOUT=cubins.c
#       [-DREQUIRE=ON] -P cubins.cmake
# Assembles both modules for the architectures below and embeds what comes out: struct p2s_cubin p2s_cubins[] (cubins.h). An
# architecture that this assembler does not know is left out, as is everything where there is none.
set(arches 70 75 80 86 89 90 100 120)
set(images "")
set(rows "")
set(made "")
foreach(arch IN LISTS arches)
  set(measure 0)
  foreach(text IN ITEMS ${TESTS} ${MEASURE})
    if(PTXAS)
      set(cubin ${OUT}.${arch}.${measure})
      execute_process(COMMAND ${PTXAS} -arch=sm_${arch} -o ${cubin} ${text} RESULT_VARIABLE rc OUTPUT_QUIET ERROR_VARIABLE said)
      if(rc EQUAL 0)
        file(READ ${cubin} hex HEX)
        file(REMOVE ${cubin})
        string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
        string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes
               "${bytes}")
        # Loaders read it as an ELF file: aligned as one.
        string(APPEND images "_Alignas(64) static const unsigned char sm_${arch}_${measure}[] = {\n${bytes}};\n")
        string(APPEND rows "\t{${arch}, ${measure}, sm_${arch}_${measure}},\n")
        list(APPEND made ${arch})
      elseif(NOT said MATCHES "not defined for option|[Uu]nsupported|not (a )?supported")
        message(FATAL_ERROR "ptxas for sm_${arch}: ${said}")
      endif()
    endif()
    math(EXPR measure "${measure} + 1")
  endforeach()
endforeach()
if(REQUIRE AND NOT made)
  message(FATAL_ERROR "P2PSAFE_CUBINS is ON, and no code could be made")
endif()
file(WRITE "${OUT}" "/* Made from PTX text by ptxas. */\n#include \"helper/cubins.h\"\n\n${images}\n"
     "const struct p2s_cubin p2s_cubins[] = {\n${rows}\t{0, 0, 0},\n};\n")
