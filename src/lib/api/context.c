#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "core/sized.h"

int32_t p2s_error_out(struct p2psafe_error *err, const struct p2s_fault *fault)
{
	struct p2psafe_error own = {0};

	if (err == NULL)
		return fault->code;
	own.code = fault->code;
	own.os_error = fault->os_error;
	own.gpu = fault->gpu;
	memcpy(own.text, fault->text, sizeof own.text);
	own.text[sizeof own.text - 1] = '\0';
	p2s_sized_out(err, &own, sizeof own); /* an error struct of absurd size gets nothing; the code is returned all the same */
	return fault->code;
}

P2PSAFE_API int32_t p2psafe_context_new(p2psafe_context **out, p2psafe_log_fn log, void *user, struct p2psafe_error *err)
{
	struct p2s_fault fault = {0};

	if (out == NULL) {
		p2s_fault_set(&fault, P2PSAFE_E_INVALID, 0, "out is NULL; expected where to put the context");
		return p2s_error_out(err, &fault);
	}
	*out = calloc(1, sizeof **out);
	if (*out == NULL) {
		p2s_fault_set(&fault, P2PSAFE_E_NOMEM, 0, "out of memory");
		return p2s_error_out(err, &fault);
	}
	(*out)->log.fn = log;
	(*out)->log.user = user;
	atomic_init(&(*out)->busy, 0);
	return P2PSAFE_OK;
}

P2PSAFE_API void p2psafe_context_free(p2psafe_context *ctx)
{
	free(ctx);
}

int32_t p2s_context_enter(p2psafe_context *ctx, struct p2s_fault *fault)
{
	int idle = 0;

	if (ctx == NULL)
		return p2s_fault_set(fault, P2PSAFE_E_INVALID, 0, "context is NULL");
	if (!atomic_compare_exchange_strong(&ctx->busy, &idle, 1))
		return p2s_fault_set(fault, P2PSAFE_E_BUSY, 0, "context is inside another call; use one context per thread");
	if (!ctx->jansson_checked && p2s_jansson_check(fault) != P2PSAFE_OK) {
		p2s_context_leave(ctx);
		return P2PSAFE_E_SYSTEM;
	}
	ctx->jansson_checked = 1;
	return P2PSAFE_OK;
}

void p2s_context_leave(p2psafe_context *ctx)
{
	atomic_store(&ctx->busy, 0);
}
