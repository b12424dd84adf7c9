/* Does the IOMMU translate, and did it stop transfers? The accessor's domain decides. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rules/about.h"

/* What the accessor in g suffered: 1 a transfer that it started was wrong, -1 nothing of it was tested, 0 neither. Pairs over
 * NVLink meet no IOMMU. */
static int32_t suffers(const struct p2s_model *m, int32_t g)
{
	size_t pairs = 0;
	size_t untested = 0;

	for (size_t i = 0; i < m->pair_count; i++) {
		const struct p2s_pair *p = &m->pairs[i];

		if (p->src != g || p->path == P2PSAFE_PATH_NVL || p->path == P2PSAFE_PATH_C2C)
			continue;
		pairs++;
		if (p2s_about_bad(p))
			return 1;
		untested += p2s_about_untested(p) != 0;
	}
	return pairs > 0 && untested == pairs ? -1 : 0;
}

struct domains {
	size_t group, translated;
	int32_t bad;      /* a translated accessor's transfer was wrong */
	int32_t untested; /* none of them was tested */
	const struct p2s_gpu *first;
};

static struct domains look(const struct p2s_model *m)
{
	struct domains d = {.untested = 1};

	for (size_t i = 0; i < m->gpu_count; i++) {
		const struct p2s_gpu *g = &m->gpus[i];
		int32_t s;

		if (!p2s_about_looked_at(m, (int32_t)i))
			continue;
		d.group++;
		if (!p2s_about_translated(g))
			continue;
		d.translated++;
		if (d.first == NULL)
			d.first = g;
		s = suffers(m, (int32_t)i);
		d.bad |= s == 1;
		d.untested &= s == -1;
	}
	d.untested &= d.translated > 0;
	return d;
}

/* The line names a device, and no GPU here has that address, in whatever segment. */
static int32_t of_another(const struct p2s_model *m, const struct p2s_log_event *e)
{
	const char *first = strchr(e->device, ':');
	int32_t any_segment = first != NULL && strchr(first + 1, ':') == NULL;

	for (size_t i = 0; i < m->gpu_count; i++) {
		const char *at = any_segment ? strchr(m->gpus[i].address, ':') : m->gpus[i].address;

		if (at != NULL && strcmp(at + any_segment, e->device) == 0)
			return 0;
	}
	return e->gpu < 0 && e->device[0] != '\0';
}

static const char *log_word(const struct p2s_model *m)
{
	size_t faults = 0;

	for (size_t i = 0; i < m->facts.log_count; i++)
		faults += p2s_log_class(m->facts.log[i].kind) == P2S_LOG_CLASS_FAULT && !of_another(m, &m->facts.log[i]);
	if (faults > 0)
		return "some";
	switch (m->facts.host.log_state) {
	case P2S_LOG_READABLE:
		return m->facts.host.log_lost > 0 ? "none in what could be read of it" : "none";
	case P2S_LOG_DENIED:
		return "unreadable (no permission)";
	case P2S_LOG_ABSENT:
		return "absent";
	default:
		return "not read";
	}
}

/* Untested, and expected to arrive: translation is no reason to worry. */
static void soften(const struct p2s_model *m, int32_t bad, struct p2s_claim *c)
{
	if (!bad && p2s_about_prior(m) == 0)
		c->severity = P2PSAFE_SEVERITY_INFO;
}

int32_t p2s_find_translated_host(const struct p2s_about *a, struct p2s_claim *c)
{
	struct domains d = look(a->m);

	if (d.group < 2 || d.translated != d.group || (!d.bad && !d.untested))
		return 0;
	p2s_about_sysfs(d.first, "iommu_group/type", c->source, sizeof c->source);
	P2S_SAY(c->value[0], "%zu", d.translated);
	P2S_SAY(c->value[1], "%s", d.first->domain_type);
	P2S_SAY(c->value[2], "%s", log_word(a->m));
	soften(a->m, d.bad, c);
	return 1;
}

/* Some GPUs of the group are in translating domains and some are not. */
static int32_t mixed(const struct p2s_model *m)
{
	size_t group = 0;
	size_t translated = 0;

	for (size_t i = 0; i < m->gpu_count; i++) {
		group += p2s_about_looked_at(m, (int32_t)i) != 0;
		translated += p2s_about_looked_at(m, (int32_t)i) && p2s_about_translated(&m->gpus[i]);
	}
	return translated != group;
}

int32_t p2s_find_translated_gpu(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_gpu *g = &a->m->gpus[a->gpu];
	int32_t s;

	if (!p2s_about_translated(g) || !mixed(a->m))
		return 0;
	s = suffers(a->m, a->gpu);
	if (s == 0)
		return 0;
	p2s_about_sysfs(g, "iommu_group/type", c->source, sizeof c->source);
	P2S_SAY(c->value[0], "%s", g->domain_type);
	c->confidence = s == 1 ? P2PSAFE_CONFIDENCE_MEDIUM : P2PSAFE_CONFIDENCE_LOW;
	soften(a->m, s == 1, c);
	return 1;
}

/* A fault of a GPU of ours in a translating domain, during the test or at an address in a GPU's BAR: what peers do. Without
 * the nvidia driver it says nothing about that driver. */
static int32_t is_peer_fault(const struct p2s_model *m, const struct p2s_log_event *e)
{
	return p2s_log_class(e->kind) == P2S_LOG_CLASS_FAULT && e->gpu >= 0 && (size_t)e->gpu < m->gpu_count &&
		   m->gpus[e->gpu].in_group && (e->in_test || (e->owner >= 0 && e->owner != e->gpu));
}

/* A peer fault of one GPU (-1: of any), one at a peer's address first: only that shows a raw bus address. */
static const struct p2s_log_event *peer_fault(const struct p2s_model *m, int32_t gpu)
{
	const struct p2s_log_event *found = NULL;

	for (size_t i = 0; i < m->facts.log_count; i++) {
		const struct p2s_log_event *e = &m->facts.log[i];

		if (!is_peer_fault(m, e) || (gpu >= 0 && e->gpu != gpu))
			continue;
		if (e->owner >= 0 && e->owner != e->gpu)
			return e;
		found = found != NULL ? found : e;
	}
	return found;
}

static void say_fault(const struct p2s_log_event *e, const char *raw, const char *other, struct p2s_claim *c)
{
	P2S_SAY(c->value[0], "%s", e->text);
	P2S_SAY(c->value[1], "%s", e->owner >= 0 && e->owner != e->gpu ? raw : other);
}

int32_t p2s_find_translated_log(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_log_event *e = peer_fault(a->m, -1);
	struct domains d = look(a->m);

	if (d.group < 2 || d.translated != d.group || (!d.bad && !d.untested) || e == NULL)
		return 0;
	say_fault(e, "the driver hands out raw BAR addresses", "did not know the address of a transfer", c);
	return 1;
}

int32_t p2s_find_translated_gpu_log(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_log_event *e = peer_fault(a->m, a->gpu);

	if (!p2s_about_translated(&a->m->gpus[a->gpu]) || !mixed(a->m) || suffers(a->m, a->gpu) == 0 || e == NULL)
		return 0;
	say_fault(e, "it used a raw BAR address", "it used one that the IOMMU does not know", c);
	return 1;
}

int32_t p2s_find_translated_prior(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_host_facts *h = &a->m->facts.host;
	struct domains d = look(a->m);
	int32_t prior = p2s_about_prior(a->m);

	/* Beside the two rows above, never alone: mixed domains have their own. */
	if (d.group < 2 || d.translated != d.group || (!d.bad && !d.untested) || prior < 0)
		return 0;
	if (h->kernel_major >= 0)
		P2S_SAY(c->value[0], "%d.%d", (int)h->kernel_major, (int)h->kernel_minor);
	else
		P2S_SAY(c->value[0], "unknown");
	P2S_SAY(c->value[1], "%s", h->remap_peer_mmio == P2S_YES ? "1" : h->remap_peer_mmio == P2S_NO ? "0" : "unread");
	if (prior == 0)
		P2S_SAY(c->value[2], "a stock driver maps peers before 6.12, so transfers may arrive");
	else if (h->patched == P2S_YES)
		P2S_SAY(c->value[2], "a patched driver uses raw bus addresses, which the IOMMU does not know");
	else if (p2s_about_kernel_from(a->m, 6, 12) == 1)
		P2S_SAY(c->value[2],
				"since 6.12 the driver uses raw bus addresses in translating domains, whatever this parameter says");
	else if (h->remap_peer_mmio == P2S_NO)
		P2S_SAY(c->value[2], "the driver is told to use raw bus addresses, which the IOMMU does not know");
	else
		P2S_SAY(c->value[2],
				"with SME the mapping of a peer carries the encryption bit and leads nowhere, without a line in the log");
	soften(a->m, d.bad, c);
	return 1;
}

int32_t p2s_find_fault(const struct p2s_about *a, struct p2s_claim *c)
{
	const struct p2s_log_event *e = a->event;
	char flags[80];

	if (p2s_log_class(e->kind) != P2S_LOG_CLASS_FAULT || (e->gpu < 0 && e->owner < 0))
		return 0;
	c->gpu = e->gpu;
	P2S_SAY(c->value[0], "%s", e->text);
	if (e->owner >= 0 && (size_t)e->owner < a->m->gpu_count && e->owner != e->gpu)
		P2S_SAY(c->value[1], "; the address is byte 0x%" PRIx64 " of BAR %d of %s: a peer's raw bus address", e->owner_offset,
				(int)e->owner_bar, a->m->gpus[e->owner].address);
	p2s_log_flags_text(e, flags, sizeof flags);
	if (flags[0] != '\0')
		P2S_SAY(c->value[2], "; %s", flags);
	if (e->in_test && e->src >= 0 && e->dst >= 0 && (size_t)e->src < a->m->gpu_count && (size_t)e->dst < a->m->gpu_count)
		P2S_SAY(c->value[3], "; during %s>%s", a->m->gpus[e->src].address, a->m->gpus[e->dst].address);
	else
		P2S_SAY(c->value[3], "%s", e->in_test ? "; during the test" : "; before the test");
	if (of_another(a->m, e)) {
		/* A network card or the like at a GPU's memory: between GPUs that explains nothing. */
		P2S_SAY(c->value[3], "; of another device");
		c->severity = P2PSAFE_SEVERITY_INFO;
	} else if (!e->in_test && e->gpu >= 0 && p2s_about_all_right(a->m, e->gpu)) {
		c->severity = P2PSAFE_SEVERITY_INFO; /* the type of a group can be changed while the machine runs */
	} else if (!e->in_test && (e->owner < 0 || e->owner == e->gpu)) { /* before, and at no peer's address: of anything */
		c->severity = P2PSAFE_SEVERITY_WARNING;
		c->confidence = P2PSAFE_CONFIDENCE_MEDIUM;
	}
	return 1;
}
