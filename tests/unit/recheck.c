/* A kept report against what the helper reads now. */
#include "unit.h"

#include "evidence/log.h"
#include "kept/recheck.h"

#define BRIDGE "0000:00:01.0"

/* A machine of two GPUs below a bridge each, everything read. */
static void make(struct p2s_model *m)
{
	unit_model(m, 2, P2PSAFE_VERDICT_OK);
	m->facts.host.log_state = P2S_LOG_READABLE;
	m->facts.host.log_first = 1;
	m->facts.host.log_position = 100;
	for (size_t i = 0; i < m->gpu_count; i++) {
		struct p2s_gpu *g = &m->gpus[i];

		snprintf(g->vbios, sizeof g->vbios, "96.00.D9.00.02");
		g->facts.mig = P2S_NO;
		g->facts.display_active = P2S_NO;
		g->facts.nvlinks_active = g->facts.nvlinks_total = 18;
		g->facts.hop_count = 2;
		snprintf(g->facts.hops[0].address, sizeof g->facts.hops[0].address, "0000:00:%02x.0", (unsigned)(i + 1) & 0xff);
		snprintf(g->facts.hops[1].address, sizeof g->facts.hops[1].address, "%s", g->address);
		g->facts.hops[0].acs_ctl = 0x1d;
		g->facts.hops[1].acs_ctl = P2S_ACS_NONE;
	}
}

static void xid(struct p2s_model *m, int32_t gpu, int32_t number, uint64_t seq)
{
	struct p2s_log_event e = {.kind = P2S_LOG_XID, .xid = number, .gpu = gpu, .owner = -1, .src = -1, .dst = -1, .seq = seq};

	assert_int_equal(p2s_facts_add_log(&m->facts, &e), 1);
}

static void fault(struct p2s_model *m, int32_t gpu, int32_t owner, uint64_t seq)
{
	struct p2s_log_event e = {.kind = P2S_LOG_AMD_FAULT, .gpu = gpu, .owner = owner, .src = -1, .dst = -1, .seq = seq};

	assert_int_equal(p2s_facts_add_log(&m->facts, &e), 1);
}

enum what {
	NOTHING, ACS, ACS_GONE, WAY, MIG, LINKS, LINKS_TOTAL, UUID, UUID_CASE, VBIOS, DISPLAY, OUTSIDER, NEW_GPU, XID_OLD, XID_NEW, XID_MILD, XID_FOREIGN,
	XID_NVLINK, FAULT_OLD, FAULT_NEW, FAULT_OWN,
	UNREAD_ACS, UNREAD_WAY, UNREAD_MIG, UNREAD_LINKS, UNREAD_UUID, UNREAD_VBIOS, UNREAD_DISPLAY, UNREAD_LOG, OVERWRITTEN, LOST
};

static void change(struct p2s_model *m, enum what what)
{
	struct p2s_gpu *g = &m->gpus[1];

	switch (what) {
	case ACS:
		g->facts.hops[0].acs_ctl = 0;
		break;
	case ACS_GONE:
		g->facts.hops[0].acs_ctl = P2S_ACS_NONE;
		break;
	case WAY:
		snprintf(g->facts.hops[0].address, sizeof g->facts.hops[0].address, "0000:40:01.0");
		break;
	case MIG:
		g->facts.mig = P2S_YES;
		break;
	case LINKS:
		g->facts.nvlinks_active = 17;
		break;
	case LINKS_TOTAL:
		g->facts.nvlinks_total = 17;
		break;
	case UUID:
		g->uuid[4] = 'f';
		break;
	case UUID_CASE:
		g->uuid[0] = 'g';
		break;
	case VBIOS:
		g->vbios[0] = '8';
		break;
	case DISPLAY:
		g->facts.display_active = P2S_YES;
		break;
	case OUTSIDER: /* not of the group: whatever it is, no pair of ours rests on it */
		g->in_group = 0;
		g->facts.mig = g->facts.display_active = P2S_YES;
		break;
	case NEW_GPU:
		g->address[0] = 'f';
		break;
	case XID_OLD:
		xid(m, 1, 79, 100);
		break;
	case XID_NEW:
		xid(m, 1, 79, 101);
		break;
	case XID_NVLINK:
		xid(m, 1, 145, 101);
		break;
	case FAULT_OLD:
		fault(m, 1, 0, 100);
		break;
	case FAULT_NEW:
		fault(m, 1, 0, 101);
		break;
	case FAULT_OWN: /* at no peer's memory */
		fault(m, 1, -1, 101);
		break;
	case XID_MILD:
		xid(m, 1, 31, 101);
		break;
	case XID_FOREIGN:
		xid(m, -1, 79, 101);
		break;
	case UNREAD_ACS:
		g->facts.hops[0].acs_ctl = P2S_ACS_UNREAD;
		break;
	case UNREAD_WAY:
		g->facts.hop_count = 0;
		break;
	case UNREAD_MIG:
		g->facts.mig = P2S_UNREAD;
		break;
	case UNREAD_LINKS:
		g->facts.nvlinks_active = g->facts.nvlinks_total = P2S_UNREAD;
		break;
	case UNREAD_UUID:
		g->uuid[0] = '\0';
		break;
	case UNREAD_VBIOS:
		g->vbios[0] = '\0';
		break;
	case UNREAD_DISPLAY:
		g->facts.display_active = P2S_UNREAD;
		break;
	case UNREAD_LOG:
		m->facts.host.log_state = P2S_LOG_DENIED;
		break;
	case OVERWRITTEN:
		m->facts.host.log_first = 102;
		break;
	case LOST:
		m->facts.host.log_lost = 1;
		break;
	default:
		break;
	}
}

static void each_field(void **state)
{
	static const struct {
		enum what what;
		int32_t same;
		const char *changed, *unread;
	} rows[] = {
		{NOTHING, 1, "", ""},
		{ACS, 0, "ACS of 0000:00:02.0 changed", ""},
		{ACS_GONE, 0, "ACS of 0000:00:02.0 changed", ""},
		{WAY, 0, "the bridges of 0000:02:00.0 changed", ""},
		{MIG, 0, "MIG mode of 0000:02:00.0 changed", ""},
		{LINKS, 0, "NVLink states of 0000:02:00.0 changed", ""},
		{LINKS_TOTAL, 0, "NVLink states of 0000:02:00.0 changed", ""},
		{UUID, 0, "UUID of 0000:02:00.0 changed", ""},
		{UUID_CASE, 1, "", ""},
		{VBIOS, 0, "VBIOS of 0000:02:00.0 changed", ""},
		{DISPLAY, 0, "the display of 0000:02:00.0 changed", ""},
		{OUTSIDER, 1, "", ""},
		{NEW_GPU, 0, "the list of GPUs of this machine changed", ""},
		{XID_OLD, 1, "", ""},
		{XID_NEW, 0, "0000:02:00.0 logged Xid 79 since the test", ""},
		{XID_MILD, 1, "", ""},
		{XID_NVLINK, 0, "0000:02:00.0 logged Xid 145 since the test", ""},
		{FAULT_OLD, 1, "", ""},
		{FAULT_NEW, 0, "the IOMMU stopped a transfer from 0000:02:00.0 to 0000:01:00.0 since the test", ""},
		{FAULT_OWN, 1, "", ""},
		{XID_FOREIGN, 1, "", ""},
		{UNREAD_ACS, 1, "", "ACS"},
		{UNREAD_WAY, 1, "", "ACS"},
		{UNREAD_MIG, 1, "", "MIG mode"},
		{UNREAD_LINKS, 1, "", "NVLink states"},
		{UNREAD_UUID, 1, "", "UUID"},
		{UNREAD_VBIOS, 1, "", "VBIOS"},
		{UNREAD_DISPLAY, 1, "", "the display"},
		{UNREAD_LOG, 1, "", "kernel log"},
		{OVERWRITTEN, 1, "", "all of the kernel log"},
		{LOST, 1, "", "all of the kernel log"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct p2s_model kept;
		struct p2s_model now;
		struct p2s_recheck r;
		int32_t same;

		make(&kept);
		make(&now);
		change(&now, rows[i].what);
		same = p2s_recheck_compare(&kept, &now, &r);
		if (same != rows[i].same || strcmp(r.changed, rows[i].changed) != 0 || strcmp(r.unread, rows[i].unread) != 0)
			fail_msg("row %zu: %d '%s' '%s'", i, (int)same, r.changed, r.unread);
		/* which card is another one; a line of the log makes none, nor does a desktop */
		if (r.other[0] != 0 || r.other[1] != (rows[i].changed[0] != '\0' && strstr(rows[i].changed, "since the test") == NULL &&
		                                      rows[i].what != DISPLAY))
			fail_msg("row %zu: another card", i);
		p2s_model_free(&kept);
		p2s_model_free(&now);
	}
}

/* Each card that is another one is told, the first by name. */
static void each_card(void **state)
{
	struct p2s_model kept;
	struct p2s_model now;
	struct p2s_recheck r;

	(void)state;
	make(&kept);
	make(&now);
	change(&now, MIG);
	change(&now, XID_NEW);
	now.gpus[0].vbios[0] = '8';
	assert_int_equal(p2s_recheck_compare(&kept, &now, &r), 0);
	assert_string_equal(r.changed, "VBIOS of 0000:01:00.0 changed");
	assert_int_equal(r.other[0], 1);
	assert_int_equal(r.other[1], 1);
	p2s_model_free(&kept);
	p2s_model_free(&now);
}

/* A kept run that could not read something neither matches nor fails, but a log that it did not see proves nothing: every grave
 * line counts as younger. */
static void what_the_kept_run_did_not_read(void **state)
{
	struct p2s_model kept;
	struct p2s_model now;
	struct p2s_recheck r;

	(void)state;
	make(&kept);
	make(&now);
	change(&kept, UNREAD_ACS);
	change(&kept, UNREAD_VBIOS);
	kept.facts.host.log_position = 0;
	assert_int_equal(p2s_recheck_compare(&kept, &now, &r), 1);
	assert_string_equal(r.unread, "ACS, VBIOS");
	xid(&now, 0, 79, 1);
	assert_int_equal(p2s_recheck_compare(&kept, &now, &r), 0);
	assert_string_equal(r.changed, "0000:01:00.0 logged Xid 79 since the test");
	p2s_model_free(&kept);
	p2s_model_free(&now);
}

/* More lines of the kind that a failure came with do not end it; what is grave does. */
static void a_failure_is_kept_whatever_is_logged(void **state)
{
	struct p2s_model kept;
	struct p2s_model now;
	struct p2s_recheck r;

	(void)state;
	make(&kept);
	make(&now);
	kept.pairs[0].told = P2PSAFE_VERDICT_CORRUPT;
	change(&now, FAULT_NEW);
	change(&now, XID_NVLINK);
	assert_int_equal(p2s_recheck_compare(&kept, &now, &r), 1);
	change(&now, XID_NEW);
	assert_int_equal(p2s_recheck_compare(&kept, &now, &r), 0);
	p2s_model_free(&kept);
	p2s_model_free(&now);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field),
		cmocka_unit_test(each_card),
		cmocka_unit_test(what_the_kept_run_did_not_read),
		cmocka_unit_test(a_failure_is_kept_whatever_is_logged),
	};

	return cmocka_run_group_tests_name("recheck", tests, NULL, NULL);
}
