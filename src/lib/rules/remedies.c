/* Which remedies bear on what was found: evaluates remedies.def over one plain struct. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evidence/log.h"
#include "rules/about.h"
#include "rules/explain.h"

/* What is the case here. All 0 or 1, but for remap and shared, which may be unknown (-1). */
struct situation {
	int32_t vetoed;
	int32_t guest, confidential, snp, sme, no_sme, vfio;
	int32_t snp_iommu;  /* the IOMMU's own line about SNP, whether or not KVM uses it */
	int32_t no_qemu;    /* a hypervisor that knows no cliques */
	int32_t new_kernel; /* 6.12 or later */
	int32_t fixed_type; /* before 5.11: the type of a group cannot be written */
	int32_t patched;
	int32_t pt_asked;
	int32_t remap;  /* DmaRemapPeerMmio */
	int32_t shared; /* two GPUs of the group hang below one bridge */
	int32_t translated, acs, acs_shared, comma;
	int32_t small, no_space, display;
	int32_t false_clique, no_clique, passthrough, topology;
	int32_t shm, invisible, ipc_container;
	int32_t boot_failed, boot_identity, grave, wedged, lost, mig, fabric, known_bad, geforce_false;
	int32_t arm;       /* an SMMU: iommu.passthrough=1 is all that switches it off */
	int32_t many_cpus; /* more than 255 on x86, whose interrupts need the IOMMU */
};

struct row {
	const char *code;
	int32_t when;
	const char *effect, *needs, *what, *risk, *why;
};

static const char *const effect_applies = "applies";

#define APPLIES "applies"
#define NO_EFFECT "no_effect"
#define FORBIDDEN "forbidden"
#define ALREADY_ON "already_on"

/* An info says that all is well: nothing to mend. */
static int32_t found(const struct p2s_model *m, const char *code)
{
	for (size_t i = 0; i < m->finding_count; i++)
		if (strcmp(m->findings[i].code, code) == 0 && m->findings[i].severity > P2PSAFE_SEVERITY_INFO)
			return 1;
	return 0;
}

/* One that also tells of less says by its severity what it is. */
static int32_t in_danger(const struct p2s_model *m, const char *code)
{
	for (size_t i = 0; i < m->finding_count; i++)
		if (strcmp(m->findings[i].code, code) == 0 && m->findings[i].severity == P2PSAFE_SEVERITY_DANGER)
			return 1;
	return 0;
}

static int32_t any_shared(const struct p2s_model *m)
{
	int32_t known = 1;

	for (size_t i = 0; i < m->pair_count; i++) {
		int32_t n = p2s_about_shared(m, m->pairs[i].src, m->pairs[i].dst);

		if (n > 0)
			return 1;
		known &= n == 0;
	}
	return known && m->pair_count > 0 ? 0 : -1;
}

static int32_t acs_below_shared(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->finding_count; i++) {
		const struct p2s_finding *f = &m->findings[i];

		if (strcmp(f->code, "ACS_REDIRECT") != 0 || f->src < 0)
			continue;
		for (size_t k = 0; k < m->pair_count; k++)
			if ((m->pairs[k].src == f->src || m->pairs[k].dst == f->src) &&
				p2s_about_shared(m, m->pairs[k].src, m->pairs[k].dst) > 0)
				return 1;
	}
	return 0;
}

static int32_t boot_identity(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->finding_count; i++)
		for (size_t k = 0; k < m->findings[i].evidence_count && strcmp(m->findings[i].code, "GPU_INIT_FAILED") == 0; k++)
			if (strstr(m->findings[i].evidence[k].text, "group is identity") != NULL)
				return 1;
	return 0;
}

/* A GPU whose memory others have filled (2), that one of them holds alone (46), or that waits for a daemon of the driver (802) is
 * not broken: a reset would only end what runs on it. */
static int32_t is_broken(const char *text)
{
	static const char *const busy[] = {": error 2", ": error 46", ": error 802"};
	size_t n = strlen(text);

	for (size_t i = 0; i < sizeof busy / sizeof busy[0]; i++)
		if (n >= strlen(busy[i]) && strcmp(text + n - strlen(busy[i]), busy[i]) == 0)
			return 0;
	return 1;
}

static int32_t boot_failed(const struct p2s_model *m)
{
	for (size_t i = 0; i < m->finding_count; i++) {
		const struct p2s_finding *f = &m->findings[i];

		for (size_t k = 0; k < f->evidence_count && strcmp(f->code, "GPU_INIT_FAILED") == 0 && f->severity > P2PSAFE_SEVERITY_INFO; k++)
			if (is_broken(f->evidence[k].text))
				return 1;
	}
	return 0;
}

static int32_t logged(const struct p2s_model *m, int32_t kind)
{
	for (size_t i = 0; i < m->facts.log_count; i++)
		if (m->facts.log[i].kind == kind)
			return 1;
	return 0;
}

/* Cliques are a property of QEMU's devices, which others have taken over; these have not. */
static int32_t no_qemu(const struct p2s_model *m)
{
	static const char *const others[] = {"vmware", "microsoft", "xen", "oracle", "parallels", "bhyve", "apple"};

	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (strcmp(m->virtualization, others[i]) == 0)
			return 1;
	return 0;
}

/* Elsewhere than on x86 the kernel knows no iommu=. */
static int32_t pt_asked(const struct p2s_host_facts *h)
{
	return h->cmd_pt == P2S_YES &&
		   (h->iommu_driver != P2S_IOMMU_DRIVER_SMMU || strstr(h->cmd_words, "iommu.passthrough=") != NULL);
}

static struct situation look(const struct p2s_model *m)
{
	const struct p2s_host_facts *h = &m->facts.host;
	struct situation s = {
		.guest = h->hypervisor == P2S_YES,
		.confidential = h->confidential_guest == P2S_YES,
		.snp = h->snp == P2S_YES || m->snp_host == 1,
		.sme = h->sme == P2S_YES,
		.no_sme = h->sme == P2S_NO,
		.vfio = h->vfio_gpus > 0,
		.snp_iommu = logged(m, P2S_LOG_SNP_ON) && !logged(m, P2S_LOG_SNP_REFUSED),
		.no_qemu = no_qemu(m),
		.new_kernel = p2s_about_kernel_from(m, 6, 12) == 1,
		.fixed_type = p2s_about_kernel_from(m, 5, 11) == 0,
		.patched = h->patched == P2S_YES,
		.pt_asked = pt_asked(h),
		.remap = h->remap_peer_mmio,
		.shared = any_shared(m),
		.translated = found(m, "IOMMU_TRANSLATED"),
		.acs = found(m, "ACS_REDIRECT"),
		.acs_shared = acs_below_shared(m),
		.comma = found(m, "CMDLINE_ACS_LIST_COMMA"),
		.small = found(m, "BAR1_SMALL"),
		.no_space = found(m, "BAR1_NO_SPACE"),
		.display = found(m, "BAR1_DISPLAY_RESERVED"),
		.false_clique = found(m, "VM_FALSE_CLIQUE"),
		.no_clique = found(m, "VM_NO_CLIQUE"),
		.passthrough = found(m, "VM_PASSTHROUGH"),
		.topology = p2s_about_has(m, "VM_TOPOLOGY_HIDDEN"),
		.shm = found(m, "CONTAINER_SHM_SMALL"),
		.invisible = found(m, "PEER_INVISIBLE"),
		.ipc_container = found(m, "CONTAINER_IPC_ISOLATED"),
		.boot_failed = boot_failed(m),
		.boot_identity = boot_identity(m),
		.grave = found(m, "GRAVE_XID") || in_danger(m, "NVLINK_FATAL_XID"),
		.wedged = found(m, "GPU_WEDGED"),
		.lost = found(m, "GPU_LOST"),
		.mig = found(m, "MIG"),
		.fabric = found(m, "NVLINK_FABRIC_NOT_READY") || found(m, "FABRIC_MANAGER_DOWN"),
		.known_bad = found(m, "DRIVER_KNOWN_BAD"),
		.geforce_false = found(m, "GEFORCE_FALSE_CAPABILITY"),
		.arm = h->iommu_driver == P2S_IOMMU_DRIVER_SMMU,
		.many_cpus = h->cpu_count > 255 && h->iommu_driver != P2S_IOMMU_DRIVER_SMMU,
	};

	for (int32_t c = 1; c < P2S_CONSUMERS; c++)
		s.vetoed |= p2s_rules_vetoed(m, c, 0);
	return s;
}

/* ---- words in braces ---- */

struct text {
	char *at;
	size_t used, cap;
};

static void put(struct text *t, const char *s)
{
	size_t n = strlen(s);

	if (t->used + n < t->cap) {
		memcpy(t->at + t->used, s, n + 1);
		t->used += n;
	}
}

/* Bridges of a finding, each once, as its evidence names them: "configuration space of <address>". */
static void put_bridges(struct text *t, const struct p2s_model *m, const char *before, const char *between, const char *after)
{
	static const char lead[] = "configuration space of ";
	char seen[2048] = " "; /* addresses between blanks: 0000:e1:00.0 is not in 10000:e1:00.0 */
	size_t used = 1;

	for (size_t i = 0; i < m->finding_count; i++) {
		const struct p2s_finding *f = &m->findings[i];

		for (size_t k = 0; k < f->evidence_count && strcmp(f->code, "ACS_REDIRECT") == 0; k++) {
			const char *address = f->evidence[k].source + sizeof lead - 1;
			char one[P2S_BDF_TEXT + 96];
			char key[sizeof f->evidence[k].source + 2];

			if (strncmp(f->evidence[k].source, lead, sizeof lead - 1) != 0)
				continue;
			snprintf(key, sizeof key, " %s ", address);
			if (strstr(seen, key) != NULL)
				continue;
			if (used + strlen(address) + 2 >= sizeof seen)
				return;
			snprintf(one, sizeof one, "%s%s%.23s%s", used > 1 ? between : "", before, address, after);
			used += (size_t)snprintf(seen + used, sizeof seen - used, "%s ", address);
			put(t, one);
		}
	}
}

static void put_gpus(struct text *t, const struct p2s_model *m, const char *code)
{
	int32_t first = 1;

	for (size_t i = 0; i < m->finding_count; i++) {
		const struct p2s_finding *f = &m->findings[i];

		if (strcmp(f->code, code) != 0 || f->src < 0)
			continue;
		put(t, first ? "" : ", ");
		put(t, m->gpus[f->src].address);
		first = 0;
	}
	if (first)
		put(t, "these GPUs");
}

static void put_word(struct text *t, const struct p2s_model *m, const struct situation *s, const char *word, size_t n)
{
	const int32_t driver = m->facts.host.iommu_driver;
	int32_t amd = driver == P2S_IOMMU_DRIVER_AMD || (driver != P2S_IOMMU_DRIVER_INTEL && m->facts.host.amd_cpu == P2S_YES);

#define IS(name) (n == sizeof name - 1 && strncmp(word, name, n) == 0)
	if (IS("pt"))
		/* only x86 knows iommu=; units without a driver of x86 are found elsewhere, too */
		put(t, s->arm || driver == P2S_IOMMU_DRIVER_VIRTIO || driver == P2S_IOMMU_DRIVER_OTHER ? "iommu.passthrough=1" : "iommu=pt");
	else if (IS("off"))
		put(t, amd ? "amd_iommu=off" : "intel_iommu=off");
	else if (IS("snp")) /* unread is not off */
		put(t, m->facts.host.snp == P2S_UNREAD && amd ? "; SEV-SNP, if it is on (not readable here), ends" : "");
	else if (IS("acs_fix")) /* Linux 9cf8a952d57b, of 6.15, for 47c8846a49ba, of 6.11: what firmware set stayed, lists failed */
		put(t, p2s_about_kernel_from(m, 6, 11) != 0 && p2s_about_kernel_from(m, 6, 15) != 1
				   ? "; kernels 6.11 to 6.14 do neither rightly before 6.12.23, 6.13.11 and 6.14.2: look at ACSCtl (lspci -vv) "
					 "afterwards"
				   : "");
	else if (IS("alone"))
		put(t, p2s_about_kernel_from(m, 6, 4) == 0 ? " (before kernel 6.4 only where the GPU is alone in its group)" : "");
	else if (IS("ports"))
		put_bridges(t, m, "", ";", "");
	else if (IS("config_acs")) /* from the right: SV, TB, RR, CR, UF, EC, DT */
		put_bridges(t, m, "x0x00xx@", ";", "");
	else if (IS("setpci"))
		put_bridges(t, m, "setpci -s ", "; ", " ECAP_ACS+0x6.w=0000");
	else if (IS("acs_why"))
		put(t,
			s->acs_shared
				? "below a shared bridge requests then go straight to the peer, past the IOMMU (sources, reports)"
				: "these GPUs share no bridge, so by the sources it changes nothing; machines like this one were reported to "
				  "be cured by it (reports): after the IOMMU, not instead of it");
	else if (IS("small"))
		put_gpus(t, m, "BAR1_SMALL");
	else if (IS("display"))
		put_gpus(t, m, "BAR1_DISPLAY_RESERVED");
	else if (IS("failed"))
		put_gpus(t, m, "GPU_INIT_FAILED");
#undef IS
}

static void render(const char *text, const struct p2s_model *m, const struct situation *s, char *out, size_t cap)
{
	struct text t = {out, 0, cap};

	out[0] = '\0';
	while (*text != '\0') {
		const char *end = *text == '{' ? strchr(text, '}') : NULL;
		char one[2] = {*text, '\0'};

		if (end == NULL) {
			put(&t, one);
			text++;
			continue;
		}
		put_word(&t, m, s, text + 1, (size_t)(end - text - 1));
		text = end + 1;
	}
}

/* ---- the list ---- */

static int32_t told(const struct p2s_model *m, const char *code)
{
	for (size_t i = 0; i < m->remedy_count; i++)
		if (strcmp(m->remedies[i].code, code) == 0)
			return 1;
	return 0;
}

static int32_t add(struct p2s_model *m, const struct situation *s, const struct row *row)
{
	struct p2s_remedy *more = realloc(m->remedies, (m->remedy_count + 1) * sizeof *more);
	struct p2s_remedy *r;

	if (more == NULL)
		return 0;
	m->remedies = more;
	r = &more[m->remedy_count++];
	memset(r, 0, sizeof *r);
	P2S_SAY(r->code, "%s", row->code);
	P2S_SAY(r->effect, "%s", row->effect);
	P2S_SAY(r->needs, "%s", row->needs);
	render(row->what, m, s, r->what, sizeof r->what);
	render(row->risk, m, s, r->risk, sizeof r->risk);
	render(row->why, m, s, r->why, sizeof r->why);
	return 1;
}

/* What helps first, in the table's order; then what does not, in the same order. */
int32_t p2s_rules_remedy(struct p2s_model *m)
{
	const struct situation here = look(m);
	const struct situation *s = &here;
	const struct row rows[] = {
#define P2S_REMEDY(id, effect, when, needs, what, risk, why) {#id, (when) != 0, effect, needs, what, risk, why},
#include "rules/remedies.def"
#undef P2S_REMEDY
	};
	const size_t count = sizeof rows / sizeof rows[0];
	int32_t ok = 1;

	m->remedy_count = 0;
	for (int32_t helps = 1; helps >= 0; helps--) {
		for (size_t i = 0; i < count; i++) {
			size_t first = i;

			/* Of one id only the first row that holds counts. */
			for (size_t k = 0; k < i && first == i; k++)
				if (rows[k].when && strcmp(rows[k].code, rows[i].code) == 0)
					first = k;
			if (!rows[i].when || first != i || told(m, rows[i].code) || (strcmp(rows[i].effect, effect_applies) == 0) != helps)
				continue;
			ok &= add(m, s, &rows[i]);
		}
	}
	return ok;
}
