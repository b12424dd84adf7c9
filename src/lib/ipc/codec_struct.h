/* Expands P2S_PROTO_FILE into structs and ids. No include guard: included once per protocol. */
#define P2S_CAT3_(a, b, c) a##b##_##c
#define P2S_CAT3(a, b, c) P2S_CAT3_(a, b, c)

#define P2S_MSG_BEGIN(name, id) struct P2S_CAT3(p2s_, P2S_PROTO_NAME, name) {
#define P2S_F_U32(name) uint32_t name;
#define P2S_F_I32(name) int32_t name;
#define P2S_F_U64(name) uint64_t name;
#define P2S_F_STR(name, cap) char name[cap];
#define P2S_F_BYTES(name, cap) uint32_t name##_len; unsigned char name[cap];
#define P2S_MSG_END(name) };
#include P2S_PROTO_FILE
#undef P2S_MSG_BEGIN
#undef P2S_F_U32
#undef P2S_F_I32
#undef P2S_F_U64
#undef P2S_F_STR
#undef P2S_F_BYTES
#undef P2S_MSG_END

#define P2S_MSG_BEGIN(name, id) enum { P2S_CAT3(p2s_id_, P2S_PROTO_NAME, name) = id };
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

/* Room for any message of the protocol. */
#define P2S_MSG_BEGIN(name, id) struct P2S_CAT3(p2s_, P2S_PROTO_NAME, name) name;
#define P2S_F_U32(name)
#define P2S_F_I32(name)
#define P2S_F_U64(name)
#define P2S_F_STR(name, cap)
#define P2S_F_BYTES(name, cap)
#define P2S_MSG_END(name)
union P2S_CAT3(p2s_, P2S_PROTO_NAME, any) {
#include P2S_PROTO_FILE
};
#undef P2S_MSG_BEGIN
#undef P2S_F_U32
#undef P2S_F_I32
#undef P2S_F_U64
#undef P2S_F_STR
#undef P2S_F_BYTES
#undef P2S_MSG_END
