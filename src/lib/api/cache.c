#include <stdlib.h>
#include <string.h>

#include "api/internal.h"

static int32_t empty(char **out, struct p2psafe_error *err)
{
	struct p2s_fault fault = {0};

	if (out != NULL)
		*out = calloc(1, 1);
	if (out != NULL && *out != NULL)
		return P2PSAFE_OK;
	p2s_fault_set(&fault, out == NULL ? P2PSAFE_E_INVALID : P2PSAFE_E_NOMEM, 0, out == NULL ? "out is NULL" : "out of memory");
	return p2s_error_out(err, &fault);
}

P2PSAFE_API int32_t p2psafe_cache_path(p2psafe_context *ctx, const struct p2psafe_options *options, char **out,
                                       struct p2psafe_error *err)
{
	(void)ctx;
	(void)options;
	return empty(out, err);
}

P2PSAFE_API int32_t p2psafe_cache_clear(p2psafe_context *ctx, const struct p2psafe_options *options, struct p2psafe_error *err)
{
	(void)ctx;
	(void)options;
	(void)err;
	return 0;
}

P2PSAFE_API int32_t p2psafe_cache_show(p2psafe_context *ctx, const struct p2psafe_options *options, char **out,
                                       struct p2psafe_error *err)
{
	(void)ctx;
	(void)options;
	return empty(out, err);
}
