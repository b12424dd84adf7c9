/* Expands P2S_PROTO_FILE into the field tables and struct p2s_table p2s_<PROTO>_table. Included after codec_struct.h
 * in exactly one .c file per protocol. */
#define P2S_MSG_BEGIN(name, id) \
	typedef struct P2S_CAT3(p2s_, P2S_PROTO_NAME, name) P2S_CAT3(type_, P2S_PROTO_NAME, name);
#define P2S_F_U32(name)
#define P2S_F_I32(name)
#define P2S_F_U64(name)
#define P2S_F_STR(name, cap)
#define P2S_F_BYTES(name, cap)
#define P2S_MSG_END(name)
#include P2S_PROTO_FILE
#undef P2S_MSG_BEGIN
#undef P2S_F_U32
#undef P2S_F_I32
#undef P2S_F_U64
#undef P2S_F_STR
#undef P2S_F_BYTES
#undef P2S_MSG_END

#define P2S_MSG_BEGIN(name, id) static const struct p2s_field P2S_CAT3(fields_, P2S_PROTO_NAME, name)[] = {
#define P2S_F_U32(name) {P2S_KIND_U32, 0},
#define P2S_F_I32(name) {P2S_KIND_I32, 0},
#define P2S_F_U64(name) {P2S_KIND_U64, 0},
#define P2S_F_STR(name, cap) {P2S_KIND_STR, cap},
#define P2S_F_BYTES(name, cap) {P2S_KIND_BYTES, cap},
#define P2S_MSG_END(name) };
#include P2S_PROTO_FILE
#undef P2S_MSG_BEGIN
#undef P2S_F_U32
#undef P2S_F_I32
#undef P2S_F_U64
#undef P2S_F_STR
#undef P2S_F_BYTES
#undef P2S_MSG_END

#define P2S_MSG_BEGIN(name, id)                                                                                        \
	{id, (uint16_t)(sizeof P2S_CAT3(fields_, P2S_PROTO_NAME, name) / sizeof(struct p2s_field)),                        \
	 (uint32_t)sizeof(P2S_CAT3(type_, P2S_PROTO_NAME, name)), #name, P2S_CAT3(fields_, P2S_PROTO_NAME, name)},
#define P2S_F_U32(name)
#define P2S_F_I32(name)
#define P2S_F_U64(name)
#define P2S_F_STR(name, cap)
#define P2S_F_BYTES(name, cap)
#define P2S_MSG_END(name)
static const struct p2s_message P2S_CAT3(messages_, P2S_PROTO_NAME, all)[] = {
#include P2S_PROTO_FILE
};
#undef P2S_MSG_BEGIN
#undef P2S_F_U32
#undef P2S_F_I32
#undef P2S_F_U64
#undef P2S_F_STR
#undef P2S_F_BYTES
#undef P2S_MSG_END

const struct p2s_table P2S_CAT3(p2s_, P2S_PROTO_NAME, table) = {
	P2S_CAT3(messages_, P2S_PROTO_NAME, all),
	sizeof P2S_CAT3(messages_, P2S_PROTO_NAME, all) / sizeof(struct p2s_message)};
