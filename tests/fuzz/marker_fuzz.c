/* Any bytes as the marker of a test that did not end (first byte even), or as the file that a plugin's test configuration names (odd).
 * A marker that cannot be read is one that forbids; a configuration that cannot be read is none, and says why. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "folder.h"
#include "fuzz.h"
#include "kept/marker.h"
#include "plugin/test_conf.h"

#define KEY UINT64_C(0x1234)
#define BOOT "7c0d3a52-8f4e-4b7e-9a51-3f2d6f0c1b9e"

static void marker(size_t size)
{
	struct p2s_marker m;
	char what[160];
	int dir = open(folder_path(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	enum p2s_marker_state state = p2s_marker_look(&m, dir, KEY, BOOT, what, sizeof what);

	FUZZ_ASSERT(dir >= 0 && memchr(what, '\0', sizeof what) != NULL);
	FUZZ_ASSERT(size <= 256 || state == P2S_MARKER_BROKEN);
	FUZZ_ASSERT(state != P2S_MARKER_ONE || m.count == 1);
	FUZZ_ASSERT(state != P2S_MARKER_BROKEN || what[0] != '\0');
	/* A run that may go leaves a marker that counts it. */
	if (state == P2S_MARKER_ONE) {
		FUZZ_ASSERT(p2s_marker_write(&m, "0000:01:00.0", "0000:41:00.0", "sm_store") == 1);
		p2s_marker_end(&m, 1);
		FUZZ_ASSERT(p2s_marker_look(&m, dir, KEY, BOOT, what, sizeof what) == P2S_MARKER_TWO);
		FUZZ_ASSERT(strcmp(what, "0000:01:00.0>0000:41:00.0 sm_store") == 0);
	}
	close(dir);
	folder_remove("marker");
}

static void conf(const struct fuzz_in *in)
{
	static struct p2s_test_conf c;
	const char *why = NULL;
	char path[300];

	folder_write("conf", in->at, in->left);
	snprintf(path, sizeof path, "%s/conf", folder_path());
	if (!p2s_test_conf_read(&c, path, &why)) {
		FUZZ_ASSERT(why != NULL);
		return;
	}
	FUZZ_ASSERT(in->left <= 4096 && memchr(in->at, '\0', in->left) == NULL && (c.host_dir != NULL || c.cuda_library != NULL));
	FUZZ_ASSERT((c.host_dir == NULL || c.host_dir[0] == '/') && (c.cuda_library == NULL || c.cuda_library[0] == '/'));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_in in = {bytes, size};

	if (fuzz_number(&in, 1) % 2 == 0) {
		folder_write("marker", in.at, in.left);
		marker(in.left);
	} else {
		conf(&in);
	}
	return 0;
}
