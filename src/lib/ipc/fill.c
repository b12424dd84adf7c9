#include "ipc/fill.h"

#include <stdio.h>
#include <string.h>

#define COPY(to, from) snprintf(to, sizeof(to), "%s", from)

static int32_t known_gpu(const struct p2s_model *m, uint32_t i)
{
	return i < m->gpu_count;
}

static int32_t in_range(int32_t value, int32_t max)
{
	return value >= 0 && value <= max;
}

static int32_t gravity(int32_t state)
{
	static const int32_t of[] = {[P2PSAFE_GPU_STATE_UNKNOWN] = 0, [P2PSAFE_GPU_STATE_READY] = 1, [P2PSAFE_GPU_STATE_NOT_OURS] = 2,
	                             [P2PSAFE_GPU_STATE_BUSY] = 3,    [P2PSAFE_GPU_STATE_RISKY] = 4, [P2PSAFE_GPU_STATE_FAILED] = 5,
	                             [P2PSAFE_GPU_STATE_WEDGED] = 6};

	return in_range(state, P2PSAFE_GPU_STATE_WEDGED) ? of[state] : 0;
}

static int32_t is_lost(const struct p2s_model *m, int32_t gpu)
{
	for (size_t i = 0; i < m->finding_count; i++)
		if (strcmp(m->findings[i].code, "GPU_LOST") == 0 && m->findings[i].src == gpu)
			return 1;
	return 0;
}

int32_t p2s_fill_gpu(struct p2s_model *m, const struct p2s_lib_gpu_out *in)
{
	struct p2s_gpu *g;

	if (!known_gpu(m, in->index) || !in_range(in->state, P2PSAFE_GPU_STATE_WEDGED))
		return -1;
	g = &m->gpus[in->index];
	/* What ended it stays: nothing that is said of it later is better. */
	if (gravity(in->state) > gravity(g->state))
		g->state = in->state;
	if (in->ordinal >= 0)
		g->ordinal = in->ordinal;
	if (in->driver_order >= 0)
		g->driver_order = in->driver_order;
	if (in->minor >= 0)
		g->minor = in->minor;
	if (in->cc_major > 0) {
		g->cc_major = in->cc_major;
		g->cc_minor = in->cc_minor;
	}
	if (in->memory_bytes != 0)
		g->memory_bytes = in->memory_bytes;
	if (in->free_bytes != 0)
		g->free_bytes = in->free_bytes;
	if (in->uuid[0] != '\0')
		COPY(g->uuid, in->uuid);
	if (in->name[0] != '\0')
		COPY(g->name, in->name);
	if (in->vbios[0] != '\0')
		COPY(g->vbios, in->vbios);
	if (in->error[0] != '\0')
		COPY(g->error, in->error);
	if (in->state == P2PSAFE_GPU_STATE_FAILED && !is_lost(m, (int32_t)in->index))
		return p2s_model_find(m, "GPU_INIT_FAILED", P2PSAFE_SEVERITY_ERROR, P2PSAFE_CONFIDENCE_HIGH, (int32_t)in->index, -1,
		                      "worker", in->error[0] != '\0' ? in->error : "the driver could not use this GPU");
	if (in->state == P2PSAFE_GPU_STATE_WEDGED)
		return p2s_model_find(m, "GPU_WEDGED", P2PSAFE_SEVERITY_DANGER, P2PSAFE_CONFIDENCE_HIGH, (int32_t)in->index, -1,
		                      "worker", in->error[0] != '\0' ? in->error : "an engine of this GPU did not come back");
	return 1;
}

int32_t p2s_fill_pair(struct p2s_model *m, const struct p2s_lib_pair_out *in)
{
	struct p2s_pair *p;

	if (!known_gpu(m, in->src) || !known_gpu(m, in->dst) || !in_range(in->path, P2PSAFE_PATH_SYS) ||
	    !in_range(in->nccl_path, P2PSAFE_PATH_SYS))
		return -1;
	p = p2s_model_pair(m, (int32_t)in->src, (int32_t)in->dst);
	if (p == NULL)
		return 1; /* a pair outside the group: its path is of no use here */
	if (in->path != P2PSAFE_PATH_UNKNOWN)
		p->path = in->path;
	/* That of another way is none of this one's. 0: nobody knows. */
	if (in->path != P2PSAFE_PATH_UNKNOWN || in->limit_bytes_per_s != 0)
		p->limit_bytes_per_s = in->limit_bytes_per_s;
	if (in->nccl_path != P2PSAFE_PATH_UNKNOWN)
		p->nccl_path = in->nccl_path;
	if (in->can_access >= 0)
		p->can_access = in->can_access != 0;
	if (in->native_atomics >= 0)
		p->native_atomics = in->native_atomics != 0;
	return 1;
}

int32_t p2s_fill_leg(struct p2s_model *m, const struct p2s_lib_leg *in)
{
	struct p2s_pair *p;
	struct p2s_leg *l;

	if (!known_gpu(m, in->src) || !known_gpu(m, in->dst) || !known_gpu(m, in->initiator) || in->leg <= 0 ||
	    in->leg > P2PSAFE_LEG_STAGED || in->mapping <= 0 || in->mapping > P2PSAFE_MAPPING_HOST || in->verdict <= 0 ||
	    in->verdict > P2PSAFE_VERDICT_UNTESTED || !in_range(in->damage, P2PSAFE_DAMAGE_UNKNOWN))
		return -1;
	/* A pass with damage or without a byte is no pass. */
	if (in->verdict == P2PSAFE_VERDICT_OK && (in->damage != P2PSAFE_DAMAGE_NONE || in->bytes == 0))
		return -1;
	p = p2s_model_pair(m, (int32_t)in->src, (int32_t)in->dst);
	if (p == NULL)
		return -1;
	l = p2s_model_leg(p, in->leg, in->mapping);
	if (l == NULL)
		return 0;
	/* Nor is a leg that failed made good by what is said of it later. */
	if (l->verdict >= P2PSAFE_VERDICT_CORRUPT && l->verdict <= P2PSAFE_VERDICT_ERROR &&
	    (in->verdict < P2PSAFE_VERDICT_CORRUPT || in->verdict > P2PSAFE_VERDICT_ERROR))
		return 1;
	l->initiator = (int32_t)in->initiator;
	l->verdict = in->verdict;
	l->damage = in->damage;
	l->cuda_error = in->cuda_error;
	l->has_detail = in->has_detail != 0;
	l->bytes = in->bytes;
	l->rounds = in->rounds;
	l->error_bound_ppb = in->error_bound_ppb;
	l->coverage_bytes = in->coverage_bytes;
	l->coverage_of_bytes = in->coverage_of_bytes;
	l->max_handle_bytes = in->max_handle_bytes;
	l->verified_bytes_per_s = in->verified_bytes_per_s;
	l->offset = in->offset;
	l->expected = in->expected;
	l->found = in->found;
	COPY(l->note, in->note);
	return 1;
}

int32_t p2s_fill_staged(struct p2s_model *m, const struct p2s_lib_staged *in)
{
	struct p2s_staged *s;

	if (!known_gpu(m, in->a) || !known_gpu(m, in->b) || in->verdict <= 0 || in->verdict > P2PSAFE_VERDICT_UNTESTED)
		return -1;
	s = p2s_model_staged(m, (int32_t)in->a, (int32_t)in->b);
	if (s == NULL || (in->verdict == P2PSAFE_VERDICT_OK && in->damage != P2PSAFE_DAMAGE_NONE))
		return -1;
	s->verdict = in->verdict;
	return 1;
}

int32_t p2s_fill_fact(struct p2s_model *m, const struct p2s_lib_fact *in)
{
	int32_t gpus = (int32_t)m->gpu_count;

	if (in->code[0] == '\0' || !in_range(in->severity, P2PSAFE_SEVERITY_DANGER) ||
	    !in_range(in->confidence, P2PSAFE_CONFIDENCE_HIGH) || in->src < -1 || in->src >= gpus || in->dst < -1 ||
	    in->dst >= gpus || (in->src < 0 && in->dst >= 0))
		return -1;
	return p2s_model_find(m, in->code, in->severity, in->confidence, in->src, in->dst, in->source[0] != '\0' ? in->source : NULL,
	                      in->text);
}

int32_t p2s_fill_driver(struct p2s_model *m, const struct p2s_lib_driver *in)
{
	static const struct {
		int32_t status;
		const char *code;
	} codes[] = {{P2S_DRIVER_NO_LIBRARY, "DRIVER_MISSING"},
	             {P2S_DRIVER_NO_DEVICE, "DRIVER_NO_DEVICE"},
	             {P2S_DRIVER_TOO_OLD, "DRIVER_TOO_OLD"},
	             {P2S_DRIVER_FAILED, "DRIVER_FAILED"}};

	if (in->cuda_version > 0)
		m->cuda_version = in->cuda_version;
	if (in->status == P2S_DRIVER_OK)
		return 1;
	m->nothing_tested = 1;
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
		if (codes[i].status == in->status)
			return p2s_model_find(m, codes[i].code, P2PSAFE_SEVERITY_ERROR, P2PSAFE_CONFIDENCE_HIGH, -1, -1, "libcuda.so.1",
			                      in->text);
	return -1;
}
