#include "emit/topology.h"

#include <string.h>

#include "core/buf.h"

static void attribute(struct p2s_buf *b, const char *name, const char *value)
{
	if (value[0] != '\0')
		p2s_buf_printf(b, " %s=\"%s\"", name, value);
}

static void device(struct p2s_buf *b, const struct p2s_topology_gpu *g, const char *indent)
{
	p2s_buf_printf(b, "%s<pci busid=\"%s\"", indent, g->address);
	attribute(b, "class", g->class_code);
	attribute(b, "vendor", g->vendor);
	attribute(b, "device", g->device);
	attribute(b, "subsystem_vendor", g->subsystem_vendor);
	attribute(b, "subsystem_device", g->subsystem_device);
	attribute(b, "link_speed", g->speed);
	attribute(b, "link_width", g->width);
	p2s_buf_str(b, "/>\n");
}

/* An invented switch: its ids exist nowhere, so nothing on the machine is mistaken for it. */
static void island(struct p2s_buf *b, const struct p2s_topology *t, int32_t first)
{
	const struct p2s_topology_gpu *g = &t->gpus[first];

	p2s_buf_printf(b, "    <pci busid=\"%04x:%02x:00.0\" class=\"0x060400\" vendor=\"0xffff\" device=\"0xffff\"", t->free_domain,
	               (unsigned)g->island & 0xff);
	p2s_buf_str(b, " subsystem_vendor=\"0xffff\" subsystem_device=\"0xffff\"");
	attribute(b, "link_speed", g->speed);
	attribute(b, "link_width", g->width);
	p2s_buf_str(b, ">\n");
	for (int32_t i = first; i < t->gpu_count; i++)
		if (t->gpus[i].island == g->island)
			device(b, &t->gpus[i], "      ");
	p2s_buf_str(b, "    </pci>\n");
}

static int32_t is_first(const struct p2s_topology *t, int32_t at)
{
	for (int32_t i = 0; i < at; i++)
		if (t->gpus[i].island == t->gpus[at].island)
			return 0;
	return 1;
}

char *p2s_emit_topology(const struct p2s_topology *t)
{
	struct p2s_buf b = {0};

	p2s_buf_printf(&b, "<system version=\"1\" name=\"" P2S_TOPOLOGY_MARK "%s\">\n", t->name);
	for (int32_t n = 0; n < t->node_count; n++) {
		p2s_buf_printf(&b, "  <cpu numaid=\"%d\"", (int)t->nodes[n].id);
		attribute(&b, "affinity", t->nodes[n].affinity);
		attribute(&b, "arch", t->arch);
		attribute(&b, "vendor", t->vendor);
		attribute(&b, "familyid", t->family);
		attribute(&b, "modelid", t->model);
		p2s_buf_str(&b, ">\n");
		for (int32_t i = 0; i < t->gpu_count; i++) {
			if (t->gpus[i].island >= 0 && is_first(t, i) && t->gpus[i].node == n)
				island(&b, t, i);
			else if (t->gpus[i].island < 0 && t->gpus[i].node == n)
				device(&b, &t->gpus[i], "    ");
		}
		p2s_buf_str(&b, "  </cpu>\n");
	}
	p2s_buf_str(&b, "</system>\n");
	return p2s_buf_take(&b);
}
