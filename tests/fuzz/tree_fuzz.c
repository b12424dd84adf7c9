/* Any bytes in any file of a host folder, as somebody else's `gather` may have written them: inventory, host, IOMMU, group, the helper's
 * look at the bridges, a placement file. Nothing was tested, so nothing may be allowed, whatever the files say; and no number that is
 * told comes from outside its range. */
#include <unistd.h>

#include "api/answer.h"
#include "api/topology.h"
#include "emit/emit.h"
#include "folder.h"
#include "fuzz.h"
#include "helper/host.h"
#include "second.h"
#include "tree.h"

static int32_t tristate(int32_t v)
{
	return v == P2S_YES || v == P2S_NO || v == P2S_UNREAD;
}

static void check_gpu(const struct p2s_gpu *g)
{
	FUZZ_ASSERT(g->address[0] != '\0' && memchr(g->uuid, '\0', sizeof g->uuid) != NULL && g->numa_node >= -1);
	FUZZ_ASSERT(tristate(g->facts.bar1_assigned) && tristate(g->facts.is_vf) && tristate(g->facts.boot_vga));
	FUZZ_ASSERT(g->facts.hop_count <= P2S_HOPS && g->ordinal >= -1);
	FUZZ_ASSERT(!g->in_group || g->ours);
	for (int i = 0; i < P2S_BARS; i++)
		FUZZ_ASSERT(g->bar_bytes[i] == 0 || g->bar_start[i] + (g->bar_bytes[i] - 1) >= g->bar_start[i]);
}

static void library(int placement)
{
	struct p2s_session s;
	struct p2psafe_options o;
	p2psafe_report *report = p2s_report_new(0);
	struct p2s_model *m;
	enum p2s_group group;
	char file[300];
	char xml[300];
	int32_t rc;

	p2psafe_options_init(&o, sizeof o);
	o.host_dir = tree_host();
	snprintf(file, sizeof file, "%s/placement", folder_path());
	if (placement) {
		o.placement_file = file;
		snprintf(xml, sizeof xml, "%s/nccl.xml", folder_path());
		o.topology_file = xml;
	}
	FUZZ_ASSERT(report != NULL);
	m = &report->decision.m;
	rc = p2s_session_open(&s, &o, NULL);
	if (rc != 0) {
		FUZZ_ASSERT(rc == P2PSAFE_E_CONFIG && s.fault.text[0] != '\0'); /* host.json */
		p2psafe_report_free(report);
		return;
	}
	s.request.environment = 1;
	FUZZ_ASSERT(p2s_answer_look(&s, m, P2S_SCOPE_ALL) == 0 && p2s_answer_group(&s, m, 0, &group) == 0);
	FUZZ_ASSERT(p2s_model_make_pairs(m) == 1 && p2s_answer_finish(&s, m, NULL) == 0);
	FUZZ_ASSERT(m->simulated == 1 && m->iommu_state >= P2PSAFE_IOMMU_UNKNOWN && m->iommu_state <= P2PSAFE_IOMMU_MIXED);
	for (size_t i = 0; i < m->gpu_count; i++)
		check_gpu(&m->gpus[i]);
	second_opinion(m);
	for (int32_t c = 0; c < P2S_CONSUMERS; c++)
		FUZZ_ASSERT(m->consumers[c].allowed == 0);
	FUZZ_ASSERT(p2s_rules_exit_code(m) != 0 || m->single_gpu);
	if (placement) {
		rc = p2s_topology(&s, report);
		FUZZ_ASSERT(rc == 0 || rc == P2PSAFE_E_CONFIG || rc == P2PSAFE_E_SYSTEM);
	}
	FUZZ_ASSERT(p2s_view_index(&report->decision) == 1);
	p2psafe_report_free(report);
	p2s_session_close(&s);
}

static void helper(void)
{
	static struct p2s_host_state h;
	static const char *const gpus[] = {"0000:01:00.0", "0000:41:00.0", "0000:99:00.0"};

	memset(&h, 0, sizeof h);
	h.sock = -1;
	if (!p2s_fsroot_open(&h.root, tree_host()))
		return;
	for (h.n = 0; h.n < 3; h.n++)
		snprintf(h.gpu[h.n].address, sizeof h.gpu[0].address, "%s", gpus[h.n]);
	p2s_host_tree(&h);
	p2s_host_loaded(&h, &h.root);
	for (uint32_t i = 0; i < h.n; i++) {
		const struct p2s_place *p = &h.gpu[i].place;

		FUZZ_ASSERT(p->hops <= P2S_HOPS && (h.gpu[i].bar == 1 || h.gpu[i].bar == 2));
		for (size_t k = 0; k < p->hops; k++) {
			FUZZ_ASSERT(p->hop[k].width_now <= 32 && p->hop[k].width_max <= 32 && p->hop[k].speed_max_mts < 1001000);
			FUZZ_ASSERT(p->hop[k].acs_cap == P2S_ACS_UNREAD && p->hop[k].acs_ctl == P2S_ACS_UNREAD);
		}
		(void)p2s_host_sleeps(&h.root, gpus[i]);
	}
	p2s_fsroot_close(&h.root);
}

/* Changes: which file, how many bytes, the bytes; at most eight. A link gets another aim. Length 0xffff: the file is gone. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_in in = {bytes, size};
	size_t changed[8];
	size_t count = 0;
	int placement = 0;

	tree_host();
	while (in.left > 0 && count < 8) {
		size_t i = fuzz_number(&in, 1);
		size_t len = fuzz_number(&in, 2);
		int gone = len == 0xffff;
		const uint8_t *put = fuzz_bytes(&in, len, &len);
		char name[256];

		if (i == 255) {
			folder_write("placement", put, len);
			placement = 1;
			continue;
		}
		changed[count] = i % tree_count;
		snprintf(name, sizeof name, "host/%s", tree_files[changed[count]].name);
		if (gone) {
			folder_remove(name);
		} else if (tree_files[changed[count]].text != NULL) {
			folder_write(name, put, len);
		} else {
			char *to = fuzz_text(put, len < 200 ? len : 200);

			folder_link(name, to[0] != '\0' ? to : ".");
			free(to);
		}
		count++;
	}
	library(placement);
	helper();
	while (count > 0)
		tree_restore(changed[--count]);
	return 0;
}
