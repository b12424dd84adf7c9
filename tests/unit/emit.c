/* Settings, text forms, and the report as JSON there and back. */
#include "unit.h"

#include "choose/choose.h"
#include "emit/emit.h"
#include "rules/rules.h"

static void judged(struct p2s_model *m, int32_t n, int32_t verdict)
{
	unit_model(m, n, verdict);
	assert_int_equal(p2s_rules_judge(m, NULL), 1);
	assert_int_equal(p2s_choose(m), 1);
	assert_int_equal(p2s_emit_settings(m, 0), 1);
}

static const struct p2s_setting *setting(const struct p2s_model *m, const char *name)
{
	for (size_t i = 0; i < m->setting_count; i++)
		if (strcmp(m->settings[i].name, name) == 0)
			return &m->settings[i];
	return NULL;
}

static void nothing_is_emitted_where_everything_is_proven(void **state)
{
	struct p2s_model m;
	char *text;

	(void)state;
	judged(&m, 2, P2PSAFE_VERDICT_OK);
	assert_int_equal(m.setting_count, 0);
	text = p2s_emit_text(&m, P2PSAFE_FORMAT_SHELL);
	assert_string_equal(text, "");
	free(text);
	p2s_model_free(&m);
}

/* Lines that come in pieces cost one protocol, not a permission; who is vetoed needs no more. */
static void torn_lines_cost_one_protocol(void **state)
{
	struct p2s_model m;

	(void)state;
	judged(&m, 2, P2PSAFE_VERDICT_OK);
	assert_true(p2s_model_find(&m, "TEARING_128", P2PSAFE_SEVERITY_WARNING, P2PSAFE_CONFIDENCE_HIGH, 0, 1, "test", "lines"));
	assert_int_equal(p2s_emit_settings(&m, 0), 1);
	assert_int_equal(m.setting_count, 1);
	assert_non_null(setting(&m, "NCCL_PROTO"));
	assert_string_equal(setting(&m, "NCCL_PROTO")->value, "^LL128");
	assert_int_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed, 1);
	assert_string_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].enforced_by[0], "");
	p2s_model_free(&m);
	judged(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	assert_true(p2s_model_find(&m, "TEARING_128", P2PSAFE_SEVERITY_WARNING, P2PSAFE_CONFIDENCE_HIGH, 0, 1, "test", "lines"));
	assert_int_equal(p2s_emit_settings(&m, 0), 1);
	assert_null(setting(&m, "NCCL_PROTO"));
	p2s_model_free(&m);
}

/* A switch that works by presence must never be set, and nothing may give permission. */
static void a_veto_never_permits(void **state)
{
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	m.gpus[0].facts.fabric_state = m.gpus[1].facts.fabric_state = 0;
	assert_int_equal(p2s_rules_judge(&m, NULL), 1);
	assert_int_equal(p2s_choose(&m), 1);
	assert_int_equal(p2s_emit_settings(&m, 0), 1);
	assert_int_equal(setting(&m, "GGML_CUDA_P2P")->kind, P2PSAFE_SETTING_UNSET);
	assert_string_equal(setting(&m, "NCCL_P2P_DISABLE")->value, "1");
	assert_string_equal(setting(&m, "NCCL_WIN_ENABLE")->value, "0");
	assert_string_equal(setting(&m, "NCCL_NVLS_ENABLE")->value, "0");
	assert_null(setting(&m, "NCCL_MNNVL_ENABLE"));
	assert_null(setting(&m, "NCCL_P2P_LEVEL"));
	assert_null(setting(&m, "NCCL_SHM_DISABLE"));
	assert_string_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].enforced_by[0], "NCCL_P2P_DISABLE");
	assert_string_equal(m.consumers[P2PSAFE_CONSUMER_PEER_COPIES].enforced_by[0], "");
	for (size_t i = 0; i < m.setting_count; i++)
		for (size_t k = i + 1; k < m.setting_count; k++)
			assert_string_not_equal(m.settings[i].name, m.settings[k].name);
	/* set up or not, or unread: a fabric may be there */
	for (int32_t fabric = P2S_UNREAD; fabric <= 3; fabric++) {
		m.fabric = 0;
		m.gpus[1].facts.fabric_state = fabric;
		p2s_emit_settings(&m, 0);
		assert_int_equal(setting(&m, "NCCL_MNNVL_ENABLE") != NULL, fabric != 0);
	}
	/* a kept answer brings what was found */
	m.kept_hit = 1;
	for (m.fabric = 0; m.fabric < 2; m.fabric++) {
		p2s_emit_settings(&m, 0);
		assert_int_equal(setting(&m, "NCCL_MNNVL_ENABLE") != NULL, m.fabric);
	}
	p2s_model_free(&m);
	judged(&m, 2, P2PSAFE_VERDICT_OK);
	assert_null(setting(&m, "NCCL_MNNVL_ENABLE"));
	p2s_model_free(&m);
	p2s_model_init(&m);
	assert_int_equal(p2s_emit_full_veto(&m), 1);
	assert_non_null(setting(&m, "NCCL_MNNVL_ENABLE"));
	p2s_model_free(&m);
}

/* What a PCIe machine lacks, atomics of peers, takes nothing from programs that do without. */
static void no_atomics(void **state)
{
	static const char *const kept[] = {"NCCL_P2P_DISABLE", "NVSHMEM_DISABLE_P2P", "LAMPORT_RS_SCONV", "--disable-custom-all-reduce", "expert-parallel",
									   "GGML_CUDA_P2P", "ucx-cuda-ipc"};
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_OK);
	for (size_t i = 0; i < m.pair_count; i++)
		unit_leg(&m, m.pairs[i].src, m.pairs[i].dst, P2PSAFE_LEG_ATOMICS, P2PSAFE_MAPPING_CUMEM)->verdict =
			P2PSAFE_VERDICT_UNSUPPORTED;
	assert_int_equal(p2s_rules_judge(&m, NULL), 1);
	assert_int_equal(p2s_choose(&m), 1);
	assert_int_equal(p2s_emit_settings(&m, 0), 1);
	assert_int_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed, 1);
	assert_int_equal(m.consumers[P2PSAFE_CONSUMER_SYMMETRIC_MEMORY].allowed, 0);
	assert_non_null(setting(&m, "NCCL_WIN_ENABLE"));
	for (size_t i = 0; i < COUNT(kept); i++)
		assert_null(setting(&m, kept[i]));
	p2s_model_free(&m);
}

/* What frameworks do over peer memory without being asked has variables of its own. */
static void what_frameworks_do_unasked(void **state)
{
	struct p2s_model m;

	(void)state;
	judged(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	assert_string_equal(setting(&m, "SGLANG_DISABLE_MULTIMEM_AG")->value, "1");
	assert_string_equal(setting(&m, "LAMPORT_RS_SCONV")->value, "0");
	assert_string_equal(setting(&m, "TRTLLM_FORCE_COMM_METHOD")->value, "ALLGATHER");
	assert_int_equal(setting(&m, "TRTLLM_FORCE_COMM_METHOD")->consumer, P2PSAFE_CONSUMER_CUSTOM_ALL_REDUCE);
	assert_int_equal(setting(&m, "SGLANG_DISABLE_MULTIMEM_AG")->consumer, P2PSAFE_CONSUMER_SYMMETRIC_MEMORY);
	assert_int_equal(setting(&m, "SGLANG_DISABLE_MULTIMEM_AG")->scope, P2PSAFE_SCOPE_JOB);
	assert_int_equal(setting(&m, "SGLANG_DISABLE_MULTIMEM_AG")->applied, 1);
	p2s_model_free(&m);
}

/* Frameworks fuse all-reduces by themselves on sm_90 and sm_100: there, and where the kind is not known, one more argument. */
static void fused_all_reduces(void **state)
{
	static const struct {
		int32_t a, b, told;
	} kinds[] = {{9, 9, 1}, {10, 10, 1}, {12, 12, 0}, {8, 8, 0}, {8, 9, 1}, {0, 8, 1}, {11, 12, 0}};
	static const char *const names[] = {"--compilation-config.pass_config.fuse_allreduce_rms",
										"--enforce-disable-flashinfer-allreduce-fusion", "vllm-fused-models"};
	struct p2s_model m;

	(void)state;
	unit_model(&m, 2, P2PSAFE_VERDICT_CORRUPT);
	assert_int_equal(p2s_rules_judge(&m, NULL), 1);
	assert_int_equal(p2s_choose(&m), 1);
	for (size_t i = 0; i < COUNT(kinds); i++) {
		m.gpus[0].cc_major = kinds[i].a;
		m.gpus[1].cc_major = kinds[i].b;
		assert_int_equal(p2s_emit_settings(&m, 0), 1);
		for (size_t n = 0; n < COUNT(names); n++)
			assert_int_equal(setting(&m, names[n]) != NULL, kinds[i].told);
		assert_non_null(setting(&m, "--disable-custom-all-reduce"));
	}
	/* who is not in the group does not count; nobody knows what no GPU at all is */
	m.gpus[0].cc_major = 9;
	m.gpus[0].in_group = 0;
	assert_int_equal(p2s_emit_settings(&m, 0), 1);
	assert_null(setting(&m, names[0]));
	m.gpus[1].in_group = 0;
	assert_int_equal(p2s_emit_settings(&m, 0), 1);
	assert_non_null(setting(&m, names[0]));
	p2s_model_free(&m);
	judged(&m, 2, P2PSAFE_VERDICT_OK);
	assert_null(setting(&m, names[0]));
	p2s_model_free(&m);
}

static void text_forms(void **state)
{
	static const struct {
		int32_t format;
		const char *has, *lacks;
	} forms[] = {{P2PSAFE_FORMAT_SHELL, "export NCCL_P2P_DISABLE='1'\n", "export GGML_CUDA_P2P"},
				 {P2PSAFE_FORMAT_SHELL, "unset GGML_CUDA_P2P\n", "GGML_CUDA_P2P="},
				 {P2PSAFE_FORMAT_DOCKER, "NCCL_P2P_DISABLE=1\n", "GGML_CUDA_P2P="},
				 {P2PSAFE_FORMAT_SYSTEMD, "NCCL_P2P_DISABLE=1\n", "GGML_CUDA_P2P="},
				 {P2PSAFE_FORMAT_SYSTEMD, "# this form removes no variable, make sure that it is not set: GGML_CUDA_P2P:", "Unset"},
				 {P2PSAFE_FORMAT_DOCKER, "# this form removes no variable, make sure that it is not set: GGML_CUDA_P2P:", "unset G"},
				 {P2PSAFE_FORMAT_SYSTEMD_UNIT, "[Service]\nEnvironment=\"NCCL_P2P_DISABLE=1\"\nEnvironment", "GGML_CUDA_P2P="},
				 {P2PSAFE_FORMAT_SYSTEMD_UNIT, "UnsetEnvironment=GGML_CUDA_P2P\n", "GGML_CUDA_P2P="},
				 {P2PSAFE_FORMAT_KUBERNETES, "- name: NCCL_P2P_DISABLE\n  value: \"1\"\n", "- name: GGML"},
				 {P2PSAFE_FORMAT_NCCL_CONF, "NCCL_P2P_DISABLE=1\n", "VLLM"},
				 {P2PSAFE_FORMAT_JSON, "\"NCCL_P2P_DISABLE\"", "promote"}};
	struct p2s_model m;

	(void)state;
	p2s_model_init(&m);
	assert_int_equal(p2s_emit_full_veto(&m), 1);
	for (size_t i = 0; i < COUNT(forms); i++) {
		char *text = p2s_emit_text(&m, forms[i].format);

		assert_non_null(text);
		if (strstr(text, forms[i].has) == NULL || strstr(text, forms[i].lacks) != NULL)
			fail_msg("format %d: lacks \"%s\" or has \"%s\":\n%s", forms[i].format, forms[i].has, forms[i].lacks, text);
		free(text);
	}
	assert_null(p2s_emit_text(&m, 0));
	assert_null(p2s_emit_text(&m, 8));
	p2s_model_free(&m);
}

/* One hostile value through every form, as the reader of that form must see it. */
static void quoting(void **state)
{
	static const struct {
		int32_t format;
		const char *text;
	} forms[] = {
		{P2PSAFE_FORMAT_SHELL, "export A='x'\\''; rm -rf \"$HOME\" `%h` \\ z'\n"},
		{P2PSAFE_FORMAT_DOCKER, "A=x'; rm -rf \"$HOME\" `%h` \\ z\n"},
		{P2PSAFE_FORMAT_SYSTEMD, "A=\"x'; rm -rf \\\"\\$HOME\\\" \\`%h\\` \\\\ z\"\n"},
		{P2PSAFE_FORMAT_SYSTEMD_UNIT, "[Service]\nEnvironment=\"A=x'; rm -rf \\\"$HOME\\\" `%%h` \\\\ z\"\n"},
		{P2PSAFE_FORMAT_KUBERNETES, "- name: A\n  value: \"x'; rm -rf \\\"$$HOME\\\" `%h` \\\\ z\"\n"},
		{P2PSAFE_FORMAT_NCCL_CONF, ""},
	};
	struct p2s_model m;

	(void)state;
	p2s_model_init(&m);
	p2s_model_add_setting(&m, P2PSAFE_CONSUMER_NCCL_P2P, P2PSAFE_SETTING_ENV, 1, "A", "x'; rm -rf \"$HOME\" `%h` \\ z", "w");
	for (size_t i = 0; i < COUNT(forms); i++) {
		char *text = p2s_emit_text(&m, forms[i].format);

		assert_string_equal(text, forms[i].text);
		free(text);
	}
	p2s_model_free(&m);
}

/* No value, name or reason can become a line of its own, in no form. */
static void nothing_breaks_out(void **state)
{
	static const char *const names[] = {"NCCL_A", "NCCL_A\nLD_PRELOAD", "1A", "A B", "", "NCCL_A="};
	static const char *const values[] = {"1\nLD_PRELOAD=/tmp/x.so", "1\rLD_PRELOAD=x", "\nunset PATH\n"};
	static const int32_t kinds[] = {P2PSAFE_SETTING_ENV, P2PSAFE_SETTING_UNSET, P2PSAFE_SETTING_ADVICE, 99};

	(void)state;
	for (int32_t format = P2PSAFE_FORMAT_SHELL; format <= P2PSAFE_FORMAT_SYSTEMD_UNIT; format++) {
		for (size_t n = 0; n < COUNT(names) * COUNT(values) * COUNT(kinds); n++) {
			struct p2s_model m;
			int in_quotes = 0;
			char *text;

			p2s_model_init(&m);
			p2s_model_add_setting(&m, P2PSAFE_CONSUMER_NCCL_P2P, kinds[n % COUNT(kinds)], 1, names[n / COUNT(kinds) % COUNT(names)],
			                      values[n / COUNT(kinds) / COUNT(names)], "why\nLD_PRELOAD=y");
			text = p2s_emit_text(&m, format);
			for (char *line = text; format != P2PSAFE_FORMAT_JSON && *line != '\0'; line += strcspn(line, "\n") + 1) {
				if (!in_quotes && (strncmp(line, "LD_", 3) == 0 || strncmp(line, "unset P", 7) == 0))
					fail_msg("format %d: %s", (int)format, text);
				for (char *p = line; *p != '\0' && *p != '\n'; p++)
					in_quotes ^= format == P2PSAFE_FORMAT_SHELL && line[0] != '#' && *p == '\'';
			}
			free(text);
			p2s_model_free(&m);
		}
	}
}

/* Near pairs good, far ones not. */
static void near_pairs_only(struct p2s_model *m)
{
	unit_model(m, 4, P2PSAFE_VERDICT_OK);
	m->own_topology = 1;
	snprintf(m->virtualization, sizeof m->virtualization, "none");
	for (int32_t i = 0; i < 4; i++)
		m->gpus[i].facts.nvlinks_active = 0;
	for (size_t i = 0; i < m->pair_count; i++) {
		struct p2s_pair *p = &m->pairs[i];
		int32_t near = p->src / 2 == p->dst / 2;

		p->path = p->nccl_path = near ? P2PSAFE_PATH_PIX : P2PSAFE_PATH_PHB;
		if (!near)
			unit_leg(m, p->src, p->dst, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_IPC)->verdict = P2PSAFE_VERDICT_CORRUPT;
	}
}

/* A level where NCCL sees what we see, and never a farther one than NCCL takes by itself. */
static void a_level_where_it_says_the_same(void **state)
{
	struct p2s_model m;

	(void)state;
	near_pairs_only(&m);
	for (int step = 0; step < 8; step++) {
		static const struct {
			int32_t own, level;
		} want[] = {{1, P2PSAFE_PATH_PXB}, {0, P2PSAFE_PATH_PXB}, {1, 0}, {1, 0}, {1, 0}, {1, P2PSAFE_PATH_PIX}, {1, 0}, {1, P2PSAFE_PATH_NVL}};
		const struct p2s_setting *level;

		m.own_topology = want[step].own;
		snprintf(m.virtualization, sizeof m.virtualization, "%s", step == 2 ? "kvm" : "none"); /* a hypervisor shapes the tree */
		m.gpus[3].facts.nvlinks_active = step == 3 ? P2S_UNREAD : 0;                             /* nobody told which links there are */
		m.gpus[3].in_group = step != 4; /* a GPU that NCCL may use and nobody tested */
		if (step >= 5)                  /* a far pair is nearer than the root complex */
			p2s_model_pair(&m, 0, 2)->nccl_path = step == 5 ? P2PSAFE_PATH_PXB : step == 6 ? P2PSAFE_PATH_UNKNOWN : P2PSAFE_PATH_PIX;
		if (step == 7)
			p2s_model_pair(&m, 0, 1)->nccl_path = p2s_model_pair(&m, 1, 0)->nccl_path = P2PSAFE_PATH_NVL;
		p2s_rules_judge(&m, NULL);
		p2s_choose(&m);
		p2s_emit_settings(&m, 0);
		assert_int_equal(m.nccl_level, want[step].level);
		level = setting(&m, "NCCL_P2P_LEVEL");
		assert_int_equal(level != NULL, want[step].level != 0 && want[step].own);
		assert_int_equal(setting(&m, "NCCL_P2P_DISABLE") != NULL, level == NULL);
		assert_int_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].allowed, 0);
		assert_non_null(setting(&m, "NCCL_WIN_ENABLE"));
		if (level != NULL) {
			char *text = p2s_emit_text(&m, P2PSAFE_FORMAT_DOCKER);

			assert_string_equal(level->value, step == 0 ? "PXB" : step == 5 ? "PIX" : "NVL");
			assert_string_equal(m.consumers[P2PSAFE_CONSUMER_NCCL_P2P].enforced_by[0], "NCCL_P2P_LEVEL");
			assert_non_null(strstr(text, "NCCL_P2P_DISABLE=1\n"));
			assert_null(strstr(text, "NCCL_P2P_LEVEL"));
			free(text);
		}
	}
	p2s_model_free(&m);
}

/* Below Broadcom's switches, or ones that nobody could read, pairs are nearer to NCCL than to us: only NVLink is the same to both. */
static void no_level_below_switches_that_nccl_folds(void **state)
{
	static const struct {
		uint32_t vendor;
		int32_t level;
	} rows[] = {{0x1022, P2PSAFE_PATH_PXB}, {0x10b5, P2PSAFE_PATH_PXB}, {0x1000, 0}, {0xffff, 0}, {0xffffffff, 0}, {0, 0}};
	struct p2s_model m;

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		for (int nvlink = 0; nvlink < 2; nvlink++) {
			struct p2s_gpu_facts *f;

			near_pairs_only(&m);
			f = &m.gpus[2].facts;
			f->hop_count = 3;
			f->hops[0].vendor = 0x1022;
			f->hops[1].vendor = rows[i].vendor;
			f->hops[2].vendor = 0x10de;
			for (size_t k = 0; nvlink && k < m.pair_count; k++)
				if (m.pairs[k].nccl_path == P2PSAFE_PATH_PIX)
					m.pairs[k].path = m.pairs[k].nccl_path = P2PSAFE_PATH_NVL;
			p2s_rules_judge(&m, NULL);
			p2s_choose(&m);
			assert_int_equal(m.nccl_level, rows[i].level == 0 && nvlink ? P2PSAFE_PATH_NVL : rows[i].level);
			assert_int_equal(p2s_choose_bad_is_far(&m), rows[i].level != 0);
			p2s_model_free(&m);
		}
	}
}

/* Promotion: wanted, all proven, all measured faster; otherwise nothing. */
static void permission_only_for_what_is_faster(void **state)
{
	struct p2s_model m;

	(void)state;
	for (int step = 0; step < 7; step++) {
		unit_model(&m, 2, P2PSAFE_VERDICT_OK);
		if (step == 6) { /* a GPU that nobody judged: the program that is promoted sees it all the same */
			struct p2s_gpu *left_out = p2s_model_add_gpu(&m);

			assert_non_null(left_out);
			left_out->ours = 1;
		}
		for (size_t i = 0; i < m.pair_count; i++) {
			m.pairs[i].path = m.pairs[i].nccl_path = P2PSAFE_PATH_SYS;
			m.pairs[i].bandwidth.ce_write = m.pairs[i].bandwidth.sm_store = 25000000000;
		}
		m.staged[0].bandwidth.ce_write = 12000000000;
		m.promote = step != 1;
		if (step == 2)
			m.pairs[1].bandwidth.ce_write = m.pairs[1].bandwidth.sm_store = 0; /* one way was not measured */
		if (step == 3)
			m.staged[0].bandwidth.ce_write = 0;
		if (step == 4)
			unit_leg(&m, 1, 0, P2PSAFE_LEG_CE_READ, P2PSAFE_MAPPING_PEER)->verdict = P2PSAFE_VERDICT_UNTESTED;
		if (step == 5) { /* near enough for NCCL anyway */
			m.pairs[0].nccl_path = P2PSAFE_PATH_NVL;
			m.pairs[1].nccl_path = P2PSAFE_PATH_NVL;
		}
		p2s_rules_judge(&m, NULL);
		p2s_choose(&m);
		p2s_emit_settings(&m, 0);
		assert_int_equal(setting(&m, "NCCL_P2P_LEVEL") != NULL, step == 0);
		if (step == 0) {
			assert_string_equal(setting(&m, "NCCL_P2P_LEVEL")->value, "SYS");
			assert_int_equal(setting(&m, "NCCL_P2P_LEVEL")->gives, 1);
			assert_int_equal(setting(&m, "GGML_CUDA_P2P")->gives, 1);
		}
		for (size_t i = 0; step != 0 && step != 5 && i < m.setting_count; i++)
			assert_int_equal(m.settings[i].gives, 0);
		p2s_model_free(&m);
	}
}

/* Every number that can be measured, each another. */
static void measure(struct p2s_model *m)
{
	struct p2s_pair *p = &m->pairs[0];
	struct p2s_staged *s = &m->staged[0];

	p->bandwidth = (struct p2s_bandwidth){101, 102, 103, 104, 105, 106};
	p->latency = (struct p2s_latency){107, 108, 109};
	p->limit_bytes_per_s = 200;
	p->sizes = calloc(2, sizeof *p->sizes);
	assert_non_null(p->sizes);
	p->size_count = 2;
	p->sizes[0] = (struct p2s_size_row){4096, 111, 112, 113, 114};
	p->sizes[1] = (struct p2s_size_row){8192, 115, 0, 0, 116};
	s->bandwidth = (struct p2s_bandwidth){.ce_write = 21, .ce_read = 22, .both_ways = 23};
	s->latency.store_flag_ns = 124;
	for (int g = 0; g < 2; g++) {
		struct p2s_gpu_facts *f = &m->gpus[g].facts;

		f->hop_count = 1;
		snprintf(f->hops[0].address, sizeof f->hops[0].address, "%s", m->gpus[g].address);
		f->hops[0].acs_cap = f->hops[0].acs_ctl = P2S_ACS_NONE;
		f->hops[0].vendor = 0x1000;
		f->hops[0].device = 0xc010;
		f->hops[0].speed_max_mts = 32000;
		f->hops[0].speed_loaded_mts = 16000;
		f->hops[0].width_max = 16;
		f->hops[0].width_loaded = 8;
		f->to_host = 131;
		f->from_host = 132;
		f->host_both_ways = 133;
		f->all_to_one = 134;
		f->one_to_all = 135;
		f->host_node = g;
	}
	p->path = P2PSAFE_PATH_PHB;
}

/* What is not vendor and device as we write them is a bridge that nobody could read. */
static void ids_of_bridges(void **state)
{
	static const char *const texts[] = {"-001:c010", " 100:c010", "1000:+010", "1000:c01g", "10000:010", "1000-c010", "1000:c0100", "1000:", ""};

	(void)state;
	for (size_t i = 0; i <= COUNT(texts); i++) {
		json_t *gpu = json_pack("{s:[{s:s, s:s*}]}", "path", "bdf", "0000:01:00.0", "id", i < COUNT(texts) ? texts[i] : NULL);
		struct p2s_gpu_facts f = {.hop_count = 0};

		assert_non_null(gpu);
		p2s_emit_parse_path(gpu, &f);
		assert_int_equal(f.hop_count, 1);
		if (f.hops[0].vendor != 0xffff || f.hops[0].device != 0xffff)
			fail_msg("%s: %x:%x", i < COUNT(texts) ? texts[i] : "none", f.hops[0].vendor, f.hops[0].device);
		json_decref(gpu);
	}
}

static void there_and_back(void **state)
{
	struct p2s_model m;
	struct p2s_model back;
	json_t *a;
	json_t *b;
	struct p2s_leg *l;

	(void)state;
	unit_model(&m, 3, P2PSAFE_VERDICT_OK);
	l = unit_leg(&m, 0, 2, P2PSAFE_LEG_SM_STORE, P2PSAFE_MAPPING_IPC);
	l->verdict = P2PSAFE_VERDICT_CORRUPT;
	l->damage = P2PSAFE_DAMAGE_MIRROR;
	l->has_detail = 1;
	l->offset = 4096;
	l->expected = UINT64_C(0xfedcba9876543210);
	l->found = 1;
	l->cuda_error = 700;
	snprintf(l->note, sizeof l->note, "note");
	measure(&m);
	m.gpus[1].cc_major = 9;
	m.gpus[1].memory_bytes = UINT64_C(1) << 37;
	m.iommu_state = P2PSAFE_IOMMU_TRANSLATED;
	m.iommu_confidence = P2PSAFE_CONFIDENCE_HIGH;
	snprintf(m.kernel, sizeof m.kernel, "6.1");
	snprintf(m.driver_parameters, sizeof m.driver_parameters, "DmaRemapPeerMmio: 1\nRegistryDwords: \"\"\n");
	p2s_model_add_iommu_evidence(&m, "source", "text");
	p2s_model_find(&m, "IOMMU_TRANSLATED", P2PSAFE_SEVERITY_ERROR, P2PSAFE_CONFIDENCE_HIGH, 0, 2, "kmsg", "line");
	p2s_model_find(&m, "CODE", P2PSAFE_SEVERITY_INFO, P2PSAFE_CONFIDENCE_LOW, -1, -1, NULL, NULL);
	p2s_model_add_timing(&m, "total", 12);
	p2s_rules_judge(&m, NULL);
	p2s_choose(&m);
	p2s_emit_settings(&m, 0);
	assert_int_equal(m.pairs[0].wins_from, 4096);
	assert_true(m.pairs[0].limit_loaded > 0 && m.pairs[0].efficiency >= 0 && m.pairs[0].score > 0);
	a = p2s_emit_report(&m, 0);
	assert_non_null(a);
	p2s_model_init(&back);
	assert_int_equal(p2s_emit_parse(a, &back), 1);
	assert_memory_equal(&back.pairs[0].bandwidth, &m.pairs[0].bandwidth, sizeof m.pairs[0].bandwidth);
	assert_memory_equal(&back.pairs[0].latency, &m.pairs[0].latency, sizeof m.pairs[0].latency);
	assert_memory_equal(&back.staged[0].bandwidth, &m.staged[0].bandwidth, sizeof m.staged[0].bandwidth);
	assert_int_equal(back.gpus[1].facts.host_node, 1);
	assert_int_equal(back.gpus[1].facts.hops[0].vendor, 0x1000);
	assert_int_equal(back.gpus[1].facts.hops[0].device, 0xc010);
	p2s_rules_judge(&back, NULL);
	p2s_choose(&back);
	p2s_emit_settings(&back, 0);
	b = p2s_emit_report(&back, 0);
	if (!json_equal(a, b)) {
		char *x = p2s_emit_dump(a, JSON_INDENT(1) | JSON_SORT_KEYS);
		char *y = p2s_emit_dump(b, JSON_INDENT(1) | JSON_SORT_KEYS);

		fail_msg("%s\n--- and back ---\n%s", x, y);
	}
	json_decref(a);
	json_decref(b);
	p2s_model_free(&m);
	p2s_model_free(&back);
}

/* The form in which a report is kept says the same, and nothing that was cut or changed is believed. */
static void kept_form(void **state)
{
	struct p2s_model m;
	struct p2s_model back;
	char *text;
	char *again;
	size_t len;

	(void)state;
	unit_model(&m, 3, P2PSAFE_VERDICT_OK);
	measure(&m);
	m.staged[1].sizes = calloc(1, sizeof *m.staged[1].sizes);
	assert_non_null(m.staged[1].sizes);
	m.staged[1].sizes[0] = (struct p2s_size_row){65536, 0, 0, 5, UINT64_MAX};
	m.staged[1].size_count = 1;
	m.gpus[0].facts.display_active = P2S_YES;
	m.gpus[1].facts.display_active = P2S_NO;
	snprintf(unit_leg(&m, 1, 0, P2PSAFE_LEG_MP_PULL, P2PSAFE_MAPPING_IPC)->note, 96, "a \"note\"\n[1,2] \xff");
	unit_leg(&m, 2, 0, P2PSAFE_LEG_SM_LOAD, P2PSAFE_MAPPING_CUMEM)->expected = UINT64_MAX;
	assert_int_equal(p2s_rules_judge(&m, NULL), 1);
	text = p2s_emit_full(&m);
	assert_non_null(text);
	len = strlen(text);
	p2s_model_init(&back);
	assert_int_equal(p2s_emit_parse_full(text, len, &back), 1);
	assert_int_equal(p2s_rules_judge(&back, NULL), 1);
	assert_int_equal(back.gpus[0].facts.display_active, P2S_YES);
	assert_int_equal(back.gpus[1].facts.display_active, P2S_NO);
	assert_int_equal(back.gpus[2].facts.display_active, P2S_UNREAD);
	assert_int_equal(back.pairs[0].size_count, 2);
	assert_int_equal(back.staged[1].size_count, 1);
	assert_true(back.staged[1].sizes[0].staged_ns == UINT64_MAX);
	assert_string_equal(unit_leg(&back, 1, 0, P2PSAFE_LEG_MP_PULL, P2PSAFE_MAPPING_IPC)->note, "a ?note??[1,2] ?");
	assert_true(unit_leg(&back, 2, 0, P2PSAFE_LEG_SM_LOAD, P2PSAFE_MAPPING_CUMEM)->expected == UINT64_MAX);
	for (size_t i = 0; i < m.pair_count; i++) {
		assert_int_equal(back.pairs[i].leg_count, m.pairs[i].leg_count);
		assert_int_equal(back.pairs[i].score, m.pairs[i].score);
		assert_memory_equal(back.pairs[i].permits, m.pairs[i].permits, sizeof m.pairs[i].permits);
		for (size_t k = 0; i > 2 && k < m.pairs[i].leg_count; k++)
			assert_memory_equal(&back.pairs[i].legs[k], &m.pairs[i].legs[k], sizeof m.pairs[i].legs[k]);
	}
	again = p2s_emit_full(&back);
	assert_string_equal(text, again);
	free(again);
	p2s_model_free(&back);
	/* cut anywhere: never more than was there, and no line that is half */
	for (size_t cut = 0; cut < len; cut += 1 + cut / 50) {
		size_t legs = 0;

		p2s_model_init(&back);
		if (p2s_emit_parse_full(text, cut, &back) == 1)
			assert_true(cut > 0 && (text[cut - 1] == '\n' || text[cut] == '\n'));
		for (size_t i = 0; i < back.pair_count; i++)
			legs += back.pairs[i].leg_count;
		assert_true(legs <= 6 * 33);
		p2s_model_free(&back);
	}
	/* one byte changed behind the first line: an error or another number, never a crash */
	for (size_t at = strcspn(text, "\n") + 1; at < len; at += 7) {
		static const char bytes[] = "0-\"],[9\n";
		char was = text[at];

		text[at] = bytes[at % (sizeof bytes - 1)];
		p2s_model_init(&back);
		(void)p2s_emit_parse_full(text, len, &back);
		p2s_model_free(&back);
		text[at] = was;
	}
	free(text);
	p2s_model_free(&m);
}

static void reads_full(const char *line, int32_t want)
{
	struct p2s_model m;
	char text[512];

	p2s_model_init(&m);
	snprintf(text, sizeof text,
	         "{\"schema\":1,\"gpus\":[{\"bdf\":\"0000:01:00.0\"},{\"bdf\":\"0000:02:00.0\"}],"
	         "\"decision\":{\"gpus\":[\"0000:01:00.0\",\"0000:02:00.0\"]}}\n%s",
	         line);
	if (p2s_emit_parse_full(text, strlen(text), &m) != want)
		fail_msg("%s", line);
	for (size_t i = 0; i < m.pair_count; i++)
		for (size_t k = 0; k < m.pairs[i].leg_count; k++)
			assert_in_range(m.pairs[i].legs[k].verdict, 1, P2PSAFE_VERDICT_UNTESTED);
	p2s_model_free(&m);
}

/* Written and read again it would not be the same report. */
static void the_same_gpu_twice(void **state)
{
	static const char text[] = "{\"schema\":1,\"gpus\":[{\"bdf\":\"0000:01:00.0\"},{\"bdf\":\"0000:02:00.0\"},"
							   "{\"bdf\":\"0000:01:00.0\"}]}\n";
	struct p2s_model m;

	(void)state;
	p2s_model_init(&m);
	assert_int_equal(p2s_emit_parse_full(text, sizeof text - 1, &m), -1);
	p2s_model_free(&m);
}

static void hostile_lines(void **state)
{
	(void)state;
	reads_full("[1,0,1,1,1,0,1,0,0,0,1,2,3,4,5,6,7,8,9,10,\"\"]\n", 1); /* with the rate */
	reads_full("[1,0,1,1,1,0,1,0,0,0,1,2,3,4,5,6,7,8,9,10,11,\"\"]\n", -1);
	reads_full("", 1);
	reads_full("[1,0,1,1,1,0,1,0,0,0,1,2,3,4,5,6,7,8,9,\"\"]\n", 1);
	reads_full("[1,0,1,1,1,99,0,99,0,0,1,2,3,4,5,6,7,8,9,\"x\"]\n", 1); /* no such GPU, no such verdict: src, UNTESTED */
	reads_full("[1,0,1,99,1,0,1,0,0,0,1,2,3,4,5,6,7,8,9,\"\"]\n", 1);  /* a leg of a newer version */
	reads_full("[9,0,1]\n", 1);
	reads_full("[2,0,1,4096,1,2,3,4]\n[3,0,1,4096,0,0,3,4]\n", 1);
	reads_full("[2,0,1,4096,1,2,3]\n", -1);
	reads_full("[2,0,1,4096,1,2,3,4,5]\n", -1);
	reads_full("[2,0,7,4096,1,2,3,4]\n", -1);
	reads_full("[3,1,1,4096,1,2,3,4]\n", -1);
	reads_full("[1,0,0,1,1,0,1,0,0,0,1,2,3,4,5,6,7,8,9,\"\"]\n", -1);
	reads_full("[1,0,1,1,1,0,1,0,0,0,1,2,3,4,5,6,7,8,18446744073709551616,\"\"]\n", -1);
	reads_full("[1,0,1,1,1,0,1,0,0,0,1,2,3,4,5,6,7,8,9,\"\"\"]\n", -1);
	reads_full("[1,0,1,1,1,0,1,0,0,0,1,2,3,4,5,6,7,8,9]\n", -1);
	reads_full("[1,0,1,1,1,0,1,0,0,0,1,2,3,4,5,6,7,8,9,\"\"]", -1); /* cut */
	reads_full("[1,-1,1]\n", -1);
	reads_full("[,]\n", -1);
	reads_full("[]\n", -1);
	reads_full("[\n", -1);
	reads_full("\n", -1);
}

/* Whatever is taken out or put in, reading ends and never finds a permission that was not there. */
static void hostile_reports(void **state)
{
	static const char *const texts[] = {
		"null",
		"[]",
		"{}",
		"{\"schema\":2}",
		"{\"schema\":1,\"gpus\":{}}",
		"{\"schema\":1,\"gpus\":[1]}",
		"{\"schema\":1,\"gpus\":[{\"bdf\":\"zz\"}]}",
		"{\"schema\":1,\"gpus\":[],\"pairs\":[{\"src\":\"0000:01:00.0\",\"dst\":\"0000:02:00.0\"}]}",
		"{\"schema\":1,\"gpus\":[{\"bdf\":\"0000:01:00.0\",\"minor\":-5}],\"findings\":[7]}",
		"{\"schema\":1,\"decision\":{\"gpus\":[\"x\",3]},\"iommu\":{\"evidence\":[null]}}"};

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		json_t *top = json_loads(texts[i], JSON_DECODE_ANY, NULL);
		struct p2s_model m;

		assert_non_null(top);
		p2s_model_init(&m);
		p2s_emit_parse(top, &m);
		p2s_rules_judge(&m, NULL);
		for (int32_t c = 1; c < P2S_CONSUMERS; c++)
			assert_int_equal(m.consumers[c].allowed, 0);
		p2s_model_free(&m);
		json_decref(top);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_emitted_where_everything_is_proven),
									   cmocka_unit_test(torn_lines_cost_one_protocol),
									   cmocka_unit_test(a_veto_never_permits),
									   cmocka_unit_test(no_atomics),
									   cmocka_unit_test(what_frameworks_do_unasked),
									   cmocka_unit_test(fused_all_reduces),
									   cmocka_unit_test(text_forms),
									   cmocka_unit_test(quoting),
									   cmocka_unit_test(nothing_breaks_out),
									   cmocka_unit_test(a_level_where_it_says_the_same),
									   cmocka_unit_test(no_level_below_switches_that_nccl_folds),
									   cmocka_unit_test(permission_only_for_what_is_faster),
									   cmocka_unit_test(ids_of_bridges),
									   cmocka_unit_test(there_and_back), cmocka_unit_test(kept_form), cmocka_unit_test(the_same_gpu_twice),
									   cmocka_unit_test(hostile_lines),
									   cmocka_unit_test(hostile_reports)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
