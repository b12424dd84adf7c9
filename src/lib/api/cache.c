#define _GNU_SOURCE
/* The kept record as a person sees it. */
#include <stdlib.h>
#include <string.h>

#include "api/answer.h"
#include "emit/emit.h"
#include "kept/key.h"
#include "kept/place.h"
#include "kept/store.h"

/* What the three calls share: a session, and the places under these options. */
struct opened {
	p2psafe_context *ctx;
	struct p2s_session s;
	struct p2s_places places;
};

static int32_t open_cache(struct opened *o, p2psafe_context *ctx, const struct p2psafe_options *options)
{
	int32_t rc;

	memset(o, 0, sizeof *o);
	o->s.root.fd = -1;
	rc = p2s_context_enter(ctx, &o->s.fault);
	if (rc != 0)
		return rc;
	o->ctx = ctx;
	rc = p2s_session_open(&o->s, options, &ctx->log);
	if (rc != 0) {
		p2s_context_leave(ctx);
		return rc;
	}
	p2s_places_open(&o->places, &o->s.request, 0);
	return 0;
}

static void close_cache(struct opened *o)
{
	p2s_places_close(&o->places);
	p2s_session_close(&o->s);
	p2s_context_leave(o->ctx);
}

static int32_t no_out(struct p2psafe_error *err)
{
	struct p2s_fault fault = {0};

	p2s_fault_set(&fault, P2PSAFE_E_INVALID, 0, "out is NULL; expected where to put the text");
	return p2s_error_out(err, &fault);
}

P2PSAFE_API int32_t p2psafe_cache_path(p2psafe_context *ctx, const struct p2psafe_options *options, char **out,
                                       struct p2psafe_error *err)
{
	struct opened o;
	int32_t rc;

	if (out == NULL)
		return no_out(err);
	*out = NULL;
	rc = open_cache(&o, ctx, options);
	if (rc != 0)
		return p2s_error_out(err, &o.s.fault);
	*out = strdup(o.places.write >= 0 ? o.places.place[o.places.write].dir : "");
	if (*out == NULL)
		rc = p2s_answer_oom(&o.s);
	close_cache(&o);
	return rc == 0 ? 0 : p2s_error_out(err, &o.s.fault);
}

/* A folder that is there and that we cannot clear, where there is none that we can. */
static int32_t is_any_there(const struct p2s_places *p)
{
	int32_t there = 0;

	for (int i = 0; i < p->count && p->write < 0; i++)
		there |= p->place[i].fd >= 0 || strcmp(p->place[i].why, "absent") != 0;
	return there;
}

P2PSAFE_API int32_t p2psafe_cache_clear(p2psafe_context *ctx, const struct p2psafe_options *options, struct p2psafe_error *err)
{
	struct opened o;
	int32_t rc = open_cache(&o, ctx, options);
	int dir;

	if (rc != 0)
		return p2s_error_out(err, &o.s.fault);
	dir = o.places.write >= 0 ? o.places.place[o.places.write].fd : -1;
	if (dir < 0 && is_any_there(&o.places)) { /* what it holds may still be believed */
		rc = p2s_fault_set(&o.s.fault, P2PSAFE_E_SYSTEM, 0, "%.180s; nothing is removed", o.places.why);
	} else if (dir >= 0) {
		rc = p2s_store_clear(dir);
		if (rc < 0)
			rc = p2s_fault_set(&o.s.fault, P2PSAFE_E_SYSTEM, -rc, "%.180s: cannot be read, or not all of it removed",
			                   o.places.place[o.places.write].dir);
	}
	close_cache(&o);
	return rc >= 0 ? rc : p2s_error_out(err, &o.s.fault);
}

/* The record's own JSON with what it is worth to this process. */
static char *describe(struct opened *o, const struct p2s_record *r, const char *dir)
{
	struct p2s_model m;
	char reason[200];
	int32_t valid = 0;
	enum p2s_group group;
	char *text = p2s_record_write(r);
	json_t *top = text != NULL ? json_loads(text, 0, NULL) : NULL;

	free(text);
	p2s_model_init(&m);
	strcpy(reason, "no group of two GPUs here");
	if (p2s_answer_look(&o->s, &m, P2S_SCOPE_BOUND) == 0) {
		for (size_t i = 0; i < m.gpu_count; i++) {
			int32_t k = p2s_record_gpu(r, m.gpus[i].address);

			m.gpus[i].minor = k >= 0 ? r->gpus[k].minor : -1;
		}
		if (p2s_answer_group(&o->s, &m, 0, &group) == 0 && group == P2S_GROUP_TESTABLE)
			valid = p2s_key_matches(r, &m, &o->s.host, &o->s.request, reason, sizeof reason);
	}
	p2s_model_free(&m);
	text = NULL;
	if (top != NULL && json_object_set_new(top, "valid", json_boolean(valid)) == 0 &&
	    json_object_set_new(top, "reason", p2s_emit_text_json(reason)) == 0 &&
	    json_object_set_new(top, "place", p2s_emit_text_json(dir)) == 0)
		text = p2s_emit_dump(top, JSON_INDENT(2));
	json_decref(top);
	return text;
}

P2PSAFE_API int32_t p2psafe_cache_show(p2psafe_context *ctx, const struct p2psafe_options *options, char **out,
                                       struct p2psafe_error *err)
{
	struct p2s_record r;
	struct opened o;
	const char *why;
	int32_t rc;

	if (out == NULL)
		return no_out(err);
	*out = NULL;
	rc = open_cache(&o, ctx, options);
	if (rc != 0)
		return p2s_error_out(err, &o.s.fault);
	for (int i = 0; i < o.places.count && *out == NULL && rc == 0; i++) {
		if (o.places.place[i].fd < 0 || !p2s_store_newest(o.places.place[i].fd, &r, &why))
			continue;
		*out = describe(&o, &r, o.places.place[i].dir);
		if (*out == NULL)
			rc = p2s_answer_oom(&o.s);
		p2s_record_free(&r);
	}
	if (*out == NULL && rc == 0) {
		*out = strdup("");
		if (*out == NULL)
			rc = p2s_answer_oom(&o.s);
	}
	close_cache(&o);
	return rc == 0 ? 0 : p2s_error_out(err, &o.s.fault);
}
