/* gather: a host folder of this machine that --host can replay, without names of people, machines or parts. */
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "gather.h"
#include "session.h"
#include "show.h"

#define DEFAULT_FOLDER "p2psafe-host"
#define MINORS 256

/* The new folder, opened; -1 after one line on stderr. It must not hold anything yet. */
static int make_folder(const char *path)
{
	struct dirent *entry;
	int used = 0;
	if (mkdir(path, 0777) != 0 && errno != EEXIST) {
		cli_say("%s: %s", path, strerror(errno));
		return -1;
	}
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 0)) : NULL;
	if (dir == NULL) {
		cli_say("%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while ((entry = readdir(dir)) != NULL)
		used |= strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(dir);
	if (used) {
		cli_say("%s is not empty; expected a new or an empty folder", path);
		close(fd);
		return -1;
	}
	return fd;
}

static void write_json(struct gather *g, const char *name, const json_t *json)
{
	char *text = json_dumps(json, JSON_INDENT(1));
	if (text == NULL)
		return;
	size_t len = strlen(text);
	text[len] = '\n'; /* in place of the end */
	gather_write(g, name, text, len + 1);
	free(text);
}

/* What the CPU instruction shows of a hypervisor: leaf 0x40000000. "" where there is none. */
static void cpu_signature(char out[13])
{
	out[0] = '\0';
#if defined(__x86_64__) || defined(__i386__)
	unsigned a, b, c, d;
	if (!__get_cpuid(1, &a, &b, &c, &d) || (c & 1u << 31) == 0)
		return;
	__cpuid(0x40000000, a, b, c, d);
	memcpy(out, &b, 4);
	memcpy(out + 4, &c, 4);
	memcpy(out + 8, &d, 4);
	out[12] = '\0';
	for (int i = 0; i < 12; i++)
		if (out[i] != '\0' && (out[i] < 0x20 || out[i] > 0x7e))
			out[i] = '?';
#endif
}

/* Which /dev/nvidia<minor> this process may use; asked, never opened. */
static json_t *device_access(void)
{
	json_t *o = json_object();
	for (int minor = 0; minor < MINORS; minor++) {
		char path[32], name[8];
		snprintf(path, sizeof(path), "/dev/nvidia%d", minor);
		if (faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) != 0)
			continue;
		snprintf(name, sizeof(name), "%d", minor);
		json_object_set_new(o, name, json_string(faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0 ? "rw" : "none"));
	}
	return o;
}

/* What a folder of text files cannot show. A simulated host's own host.json says it already. */
static void write_host_json(struct gather *g, const json_t *report, const json_t *source, const char *log)
{
	static const char *const kept[] = {"privileged", "device_access", "kmsg", "cpuid_signature", "shm_bytes"};
	char text[64], signature[13];
	struct statvfs shm;
	json_t *o = json_object();
	snprintf(text, sizeof(text), "gathered by p2psafe %s", p2psafe_version_string());
	json_object_set_new(o, "description", json_string("A machine as its system files show it; without a driver library."));
	json_object_set_new(o, "source", json_string(text));
	if (g->host_dir != NULL) {
		for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
			if (json_object_get(source, kept[i]) != NULL)
				json_object_set(o, kept[i], json_object_get(source, kept[i]));
	} else {
		json_object_set(o, "privileged", json_object_get(json_object_get(report, "host"), "privileged"));
		json_object_set_new(o, "device_access", device_access());
		json_object_set_new(o, "kmsg", json_string(log));
		cpu_signature(signature);
		if (signature[0] != '\0')
			json_object_set_new(o, "cpuid_signature", json_string(signature));
		if (statvfs("/dev/shm", &shm) == 0)
			json_object_set_new(o, "shm_bytes", json_integer((json_int_t)shm.f_blocks * (json_int_t)shm.f_frsize));
	}
	write_json(g, "host.json", o);
	json_decref(o);
}

/* A kept report tells minor numbers, which only the driver's own files have; those are not read here. */
static void write_minors(struct gather *g, const json_t *report)
{
	size_t i;
	const json_t *gpu;
	json_array_foreach(json_object_get(report, "gpus"), i, gpu)
	{
		const char *address = json_string_value(json_object_get(gpu, "bdf"));
		const char *name = json_string_value(json_object_get(gpu, "name"));
		const json_t *minor = json_object_get(gpu, "minor");
		char path[160], text[256];
		if (address == NULL || !json_is_integer(minor))
			continue;
		snprintf(path, sizeof(path), "root/proc/driver/nvidia/gpus/%.24s/information", address);
		snprintf(text, sizeof(text), "Model: \t\t %s\nDevice Minor: \t %d\n", name != NULL ? name : "unknown",
				 (int)json_integer_value(minor));
		gather_write(g, path, text, strlen(text));
	}
}

static int gather_all(struct gather *g, struct cli_session *s)
{
	p2psafe_report *report = NULL;
	char path[1100];
	json_t *source = NULL;
	const char *log = NULL;
	int rc = cli_explain_report(s, &report);
	if (rc != 0)
		return rc;
	json_t *json = cli_show_json(report);
	if (g->host_dir != NULL) {
		snprintf(path, sizeof(path), "%s/host.json", g->host_dir);
		source = json_load_file(path, 0, NULL);
		log = json_string_value(json_object_get(source, "kmsg"));
	}
	gather_files(g);
	gather_tree(g);
	if (log == NULL || strcmp(log, "readable") == 0)
		log = gather_log(g);
	write_host_json(g, json, source, log);
	write_minors(g, json);
	if (p2psafe_report_is_kept(report)) {
		gather_clean_report(json);
		write_json(g, "report.json", json);
	}
	json_decref(source);
	json_decref(json);
	p2psafe_report_free(report);
	return 0;
}

int cli_cmd_gather(const struct cli_args *args)
{
	struct cli_session s;
	struct gather g = {.host_dir = args->value[CLI_OPTION_HOST], .to = -1};
	const char *folder = args->rest_count > 0 ? args->rest[0] : DEFAULT_FOLDER;
	if (args->rest_count > 1) {
		cli_say("'p2psafe gather' takes one folder, got '%s' too", args->rest[1]);
		return CLI_EXIT_USAGE;
	}
	if (!p2s_fsroot_open(&g.from, g.host_dir)) {
		cli_say("%s: no host folder (%s)", g.host_dir != NULL ? g.host_dir : "/", strerror(errno));
		return CLI_EXIT_USAGE;
	}
	int rc = cli_session_open(&s, args);
	if (rc == 0) {
		g.to = make_folder(folder);
		rc = g.to >= 0 ? gather_all(&g, &s) : CLI_EXIT_USAGE;
	}
	cli_session_close(&s);
	p2s_fsroot_close(&g.from);
	if (g.to >= 0)
		close(g.to);
	if (rc == 0 && g.failed != 0) {
		cli_say("%s/%s: %s", folder, g.failed_path, strerror(g.failed));
		rc = CLI_EXIT_NO_REPORT;
	}
	if (rc == 0)
		printf("%s: no UUIDs, serial numbers, host or user names are in it; look it through before you hand it on.\n"
			   "p2psafe --host %s probe   replays it\n",
			   folder, folder);
	return cli_finish(rc);
}
