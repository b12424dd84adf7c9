/* What every unit test needs. */
#ifndef P2S_TESTS_UNIT_H
#define P2S_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/model.h"
#include "p2psafe/p2psafe.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* A model of n GPUs bound to nvidia, all in the group, with pairs; every leg of every mapping has this verdict. */
static inline void unit_model(struct p2s_model *m, int32_t n, int32_t verdict)
{
	p2s_model_init(m);
	m->level = P2PSAFE_LEVEL_STANDARD;
	m->created_unix = 1700000000;
	for (int32_t i = 0; i < n; i++) {
		struct p2s_gpu *g = p2s_model_add_gpu(m);

		assert_non_null(g);
		g->bdf.bus = (uint8_t)(i + 1);
		p2s_bdf_format(&g->bdf, g->address);
		snprintf(g->driver, sizeof g->driver, "nvidia");
		snprintf(g->uuid, sizeof g->uuid, "GPU-%08d-1111-2222-3333-444444444444", (int)i);
		snprintf(g->domain_type, sizeof g->domain_type, "identity");
		g->vendor = 0x10de;
		g->device = 0x2335;
		g->minor = i;
		g->ours = 1;
		g->in_group = 1;
		g->state = P2PSAFE_GPU_STATE_READY;
		g->bar_start[2] = UINT64_C(0x100000000000) * (uint64_t)(i + 1);
		g->bar_bytes[2] = UINT64_C(1) << 38;
	}
	assert_int_equal(p2s_model_make_pairs(m), 1);
	for (size_t i = 0; i < m->pair_count; i++) {
		m->pairs[i].path = P2PSAFE_PATH_NVL;
		m->pairs[i].nccl_path = P2PSAFE_PATH_NVL;
		for (int32_t map = P2PSAFE_MAPPING_PEER; verdict != 0 && map <= P2PSAFE_MAPPING_CUMEM; map++) {
			for (int32_t leg = 1; leg <= P2PSAFE_LEG_STALE; leg++) {
				struct p2s_leg *l = p2s_model_leg(&m->pairs[i], leg, map);

				assert_non_null(l);
				l->verdict = verdict;
				l->bytes = 4096;
				l->rounds = 3;
			}
		}
	}
	for (size_t i = 0; i < m->staged_count; i++)
		m->staged[i].verdict = P2PSAFE_VERDICT_OK;
}

static inline struct p2s_leg *unit_leg(struct p2s_model *m, int32_t src, int32_t dst, int32_t leg, int32_t mapping)
{
	struct p2s_pair *p = p2s_model_pair(m, src, dst);

	assert_non_null(p);
	return p2s_model_leg(p, leg, mapping);
}

#endif
