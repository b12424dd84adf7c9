#include <errno.h>
#include <string.h>

#include "api/internal.h"
#include "ipc/codec.h"

#define MS UINT64_C(1000000)

int32_t p2s_session_open(struct p2s_session *s, const struct p2psafe_options *options, const struct p2s_log *log)
{
	int32_t rc;

	memset(s, 0, sizeof *s);
	s->root.fd = -1;
	s->log = log;
	s->start_ns = p2s_now_ns();
	rc = p2s_request_make(&s->request, options, &s->fault);
	if (rc != 0)
		return rc;
	rc = p2s_host_json_read(s->request.host_dir, &s->seam, &s->fault);
	if (rc == 0 && !p2s_fsroot_open(&s->root, s->request.host_dir)) {
		if (s->request.host_dir != NULL)
			rc = p2s_fault_set(&s->fault, P2PSAFE_E_CONFIG, errno, "host folder %.160s: holds neither root/ nor sys/",
			                   s->request.host_dir);
		else
			rc = p2s_fault_set(&s->fault, P2PSAFE_E_SYSTEM, errno, "/: cannot be opened (errno %d)", errno);
	}
	if (rc != 0)
		p2s_session_close(s);
	return rc;
}

void p2s_session_close(struct p2s_session *s)
{
	p2s_fsroot_close(&s->root);
	p2s_request_free(&s->request);
}

uint64_t p2s_session_deadline(const struct p2s_session *s, size_t gpus)
{
	uint64_t ms = s->request.deadline_ms;

	if (ms == 0)
		ms = s->request.level == P2PSAFE_LEVEL_THOROUGH ? s->request.soak_ms + 600000 : 20000 + 2000 * (uint64_t)gpus;
	return s->start_ns + ms * MS;
}
