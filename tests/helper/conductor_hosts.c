#define _GNU_SOURCE
#include "conductor_hosts.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void make_folders(char *path)
{
	for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
		*at = '\0';
		assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
		*at = '/';
	}
}

void host_write(const struct made_host *h, const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof full, "%s/%s", h->dir, path);
	make_folders(full);
	f = fopen(full, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* 10, 20, ... f0, and one more: sixteen GPUs at most. */
static unsigned bus_of(uint32_t gpu)
{
	assert_true(gpu < 16);
	return gpu < 15 ? 16 * (gpu + 1) : 0xf8;
}

void host_make(struct made_host *h, uint32_t n, const char *link, const char *faults, const char *more, const char *host)
{
	char text[16384];
	size_t at;

	snprintf(h->dir, sizeof h->dir, "/tmp/p2psafe-host-XXXXXX");
	assert_non_null(mkdtemp(h->dir));
	snprintf(text, sizeof text, "{\"description\": \"made by a test\", \"source\": \"invented\"%s}", host);
	host_write(h, "host.json", text);
	at = (size_t)snprintf(text, sizeof text, "{\"driver_api\": 12080, %s \"gpus\": [", more);
	for (uint32_t i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, sizeof text - at,
		                       "%s{\"bdf\": \"0000:%02x:00.0\", \"uuid\": \"GPU-00000000-0000-0000-0000-%012x\", "
		                       "\"name\": \"Simulated\", \"minor\": %u}",
		                       i == 0 ? "" : ", ", bus_of(i), i + 1, i);
	if (link[0] == '{')
		snprintf(text + at, sizeof text - at, "], \"links\": %s, \"faults\": [%s]}", link, faults);
	else
		snprintf(text + at, sizeof text - at, "], \"links\": {\"default\": {\"kind\": \"%s\"}}, \"faults\": [%s]}", link,
		         faults);
	host_write(h, "cuda.json", text);
	host_write(h, "root/proc/cmdline", "\n");
}

void host_add_device(const struct made_host *h, const char *address, const char *path, const char *attributes)
{
	char text[512];
	char copy[256];
	char *save = NULL;

	snprintf(copy, sizeof copy, "%s", attributes);
	snprintf(text, sizeof text, "root/sys/devices/%s/vendor", path);
	host_write(h, text, "0x10de\n");
	for (char *one = strtok_r(copy, ";", &save); one != NULL; one = strtok_r(NULL, ";", &save)) {
		char *value = strchr(one, '=');

		assert_non_null(value);
		*value++ = '\0';
		snprintf(text, sizeof text, "root/sys/devices/%s/%s", path, one);
		host_write(h, text, value);
	}
	snprintf(text, sizeof text, "%s/root/sys/bus/pci/devices/%s", h->dir, address);
	make_folders(text);
	snprintf(copy, sizeof copy, "../../../devices/%.200s", path);
	assert_int_equal(symlink(copy, text), 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

void host_remove(struct made_host *h)
{
	nftw(h->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void host_play(struct play *p, const struct made_host *h, uint32_t n)
{
	play_init(p, h->dir);
	for (uint32_t i = 0; i < n; i++) {
		snprintf(p->address[i], sizeof p->address[0], "0000:%02x:00.0", bus_of(i));
		p->test[i] = 1;
	}
	p->n = n;
}
