#include "sim/config_speed.h"

#include <stdio.h>
#include <string.h>

static const struct sim_key uplink_keys[] = {
	{ "gpus", SIM_KEY_ELSE, 0, 0, 0, 1 },
	{ "bytes_per_s", SIM_KEY_INT, offsetof(struct sim_uplink, bytes_per_s), 1000, INT64_C(100000000000000), 1 },
	{ "lost_percent", SIM_KEY_INT, offsetof(struct sim_uplink, lost_percent), 0, 99, 0 },
};

static int read_uplink(struct sim_config *c, const json_t *o, const char *where, struct sim_error *e)
{
	struct sim_uplink *u = &c->uplinks[c->uplink_count];
	const json_t *gpus = json_object_get(o, "gpus");
	size_t i;

	if (!sim_keys_read(o, uplink_keys, sizeof(uplink_keys) / sizeof(uplink_keys[0]), u, where, e))
		return 0;
	for (i = 0; i < json_array_size(gpus); i++) {
		const char *address = json_string_value(json_array_get(gpus, i));
		int gpu = address ? sim_config_gpu(c, address) : -1;

		if (gpu < 0)
			return sim_fail(e, where, "gpus must be addresses of gpus");
		u->gpus |= UINT64_C(1) << gpu;
	}
	if (!u->gpus)
		return sim_fail(e, where, "gpus must name at least one GPU");
	c->uplink_count++;
	return 1;
}

/* A GPU whose port nobody describes carries in each direction what its fastest link does. */
static void fill_ports(struct sim_config *c)
{
	int s, d;

	for (s = 0; s < c->gpu_count; s++) {
		int64_t *port = &c->gpus[s].port_bytes_per_s;
		int said = *port != 0;

		for (d = 0; d < c->gpu_count && !said; d++) {
			if (s != d && c->links[s][d].bytes_per_s > *port)
				*port = c->links[s][d].bytes_per_s;
			if (s != d && c->links[d][s].bytes_per_s > *port)
				*port = c->links[d][s].bytes_per_s;
		}
		if (!*port)
			*port = INT64_MAX;
	}
}

int sim_speed_read(struct sim_config *c, const json_t *uplinks, struct sim_error *e)
{
	char where[40];
	size_t i;

	if (uplinks && (!json_is_array(uplinks) || json_array_size(uplinks) > SIM_MAX_UPLINKS))
		return sim_fail(e, "links", "uplinks must be an array of at most %d", SIM_MAX_UPLINKS);
	for (i = 0; i < json_array_size(uplinks); i++) {
		snprintf(where, sizeof(where), "links.uplinks[%zu]", i);
		if (!read_uplink(c, json_array_get(uplinks, i), where, e))
			return 0;
	}
	fill_ports(c);
	return 1;
}
