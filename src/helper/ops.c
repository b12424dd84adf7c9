#include "helper/ops.h"

#define P2S_PROTO_FILE "helper/ops.def"
#define P2S_PROTO_NAME op
#include "ipc/codec_table.h"
