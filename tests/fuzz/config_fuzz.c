/* Any bytes as configuration space, of any length and for both places of the frame-buffer window. */
#include "core/facts.h"
#include "fuzz.h"
#include "helper/host_config.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t size)
{
	for (int bar = 1; bar <= 2; bar++) {
		struct p2s_config c;

		p2s_config_parse(bytes, size, bar, &c);
		if (c.kind < P2S_HOP_UNKNOWN || c.kind > P2S_HOP_ENDPOINT || c.acs_cap < P2S_ACS_NONE || c.acs_cap > 0xffff ||
		    c.acs_ctl < P2S_ACS_NONE || c.acs_ctl > 0xffff || c.clique < P2S_CLIQUE_NONE || c.clique > 15 || c.rebar < P2S_UNREAD ||
		    c.rebar > P2S_YES || c.max_payload > 4096)
			abort();
		/* What could not be read is never "no". */
		if (size <= 64 && (c.acs_cap != P2S_ACS_UNREAD || c.rebar != P2S_UNREAD || c.clique != P2S_UNREAD))
			abort();
	}
	return 0;
}
