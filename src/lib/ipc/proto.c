#include "ipc/proto.h"

#define P2S_PROTO_FILE "ipc/proto.def"
#define P2S_PROTO_NAME lib
#include "ipc/codec_table.h"
