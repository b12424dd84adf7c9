#include <string.h>

#include "core/names.h"
#include "ipc/proto.h"
#include "kept/record.h"
#include "p2psafe/p2psafe.h"

#define STR_(x) #x
#define STR(x) STR_(x)
#define VERSION STR(P2PSAFE_VERSION_MAJOR) "." STR(P2PSAFE_VERSION_MINOR) "." STR(P2PSAFE_VERSION_PATCH)

_Static_assert(sizeof VERSION == sizeof P2S_VERSION_TEXT, "header and protocol name the same release");

P2PSAFE_API const char *p2psafe_version_string(void)
{
	return VERSION;
}

P2PSAFE_API int32_t p2psafe_abi_level(void)
{
	return P2PSAFE_VERSION_MINOR;
}

P2PSAFE_API int32_t p2psafe_record_schema(void)
{
	return P2S_RECORD_SCHEMA;
}

P2PSAFE_API int32_t p2psafe_protocol(void)
{
	return P2S_PROTOCOL;
}

P2PSAFE_API int32_t p2psafe_has(const char *feature)
{
	static const char *const features[] = {"probe", "test", "decide", "json", "env", "cache", "simulated", "measure"};

	for (size_t i = 0; feature != NULL && i < sizeof features / sizeof features[0]; i++)
		if (strcmp(feature, features[i]) == 0)
			return 1;
	return 0;
}

P2PSAFE_API const char *p2psafe_status_name(int32_t status)
{
	static const char *const names[] = {"OK",     "E_INVALID", "E_SIZE",  "E_NEWER",    "E_NOMEM",
	                                    "E_BUSY", "E_CONFIG",  "E_RANGE", "E_INTERNAL", "E_SYSTEM"};

	return status <= 0 && status > -(int32_t)(sizeof names / sizeof names[0]) ? names[-status] : "E_UNKNOWN";
}

/* One line per word group of the header. */
#define NAME(function, group)                                        \
	P2PSAFE_API const char *p2psafe_##function##_name(int32_t value) \
	{                                                                \
		return p2s_word_name(group, value);                          \
	}
#define FROM_NAME(function, group)                                         \
	P2PSAFE_API int32_t p2psafe_##function##_from_name(const char *name) \
	{                                                                      \
		return p2s_word_value(group, name);                                \
	}

NAME(verdict, P2S_GROUP_VERDICT)
NAME(transport, P2S_GROUP_TRANSPORT)
NAME(consumer, P2S_GROUP_CONSUMER)
NAME(leg, P2S_GROUP_LEG)
NAME(mapping, P2S_GROUP_MAPPING)
NAME(damage, P2S_GROUP_DAMAGE)
NAME(path, P2S_GROUP_PATH)
NAME(level, P2S_GROUP_LEVEL)
NAME(gpu_state, P2S_GROUP_GPU_STATE)
NAME(iommu, P2S_GROUP_IOMMU)
NAME(severity, P2S_GROUP_SEVERITY)
NAME(confidence, P2S_GROUP_CONFIDENCE)
NAME(setting_kind, P2S_GROUP_SETTING)
NAME(format, P2S_GROUP_FORMAT)
NAME(scope, P2S_GROUP_SCOPE)
FROM_NAME(consumer, P2S_GROUP_CONSUMER)
FROM_NAME(level, P2S_GROUP_LEVEL)
FROM_NAME(format, P2S_GROUP_FORMAT)
