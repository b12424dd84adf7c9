/* The pure part of the plugin: a veto over what the user set, and the file of P2PSAFE_TEST_CONF.
 * usage: veto FOLDER (private, empty) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../abi/check.h"
#include "p2psafe/p2psafe.h"
#include "plugin/test_conf.h"
#include "plugin/veto.h"

static void over_the_users_setting(void)
{
	static const struct {
		const char *name, *ours, *user, *told;
	} rows[] = {
		{"NCCL_P2P_DISABLE", "1", NULL, "1"},
		{"NCCL_P2P_DISABLE", "1", "0", "1"},
		{"NCCL_WIN_ENABLE", "0", "1", "0"},
		{"NCCL_P2P_LEVEL", "PXB", NULL, "PXB"},
		{"NCCL_P2P_LEVEL", "PXB", "", "PXB"},
		{"NCCL_P2P_LEVEL", "PXB", "SYS", "PXB"},
		{"NCCL_P2P_LEVEL", "PXB", "PXB", "PXB"},
		{"NCCL_P2P_LEVEL", "PXB", "NVL", "NVL"},
		{"NCCL_P2P_LEVEL", "PXB", "C2C", "C2C"},
		{"NCCL_P2P_LEVEL", "PXB", "nvl", "PXB"}, /* NCCL knows capitals only */
		{"NCCL_P2P_LEVEL", "PIX", "loc", "PIX"},
		{"NCCL_P2P_LEVEL", "PIX", " NVL", "PIX"},
		{"NCCL_P2P_LEVEL", "PXB", "LOC", "LOC"},
		{"NCCL_P2P_LEVEL", "PXB", "0", "0"},
		{"NCCL_P2P_LEVEL", "PXB", "1", "1"},
		{"NCCL_P2P_LEVEL", "PXB", "2", "PXB"},
		{"NCCL_P2P_LEVEL", "PXB", "4", "PXB"},
		{"NCCL_P2P_LEVEL", "PXB", "99", "PXB"},
		{"NCCL_P2P_LEVEL", "PXB", "fast", "PXB"}, /* NCCL ignores it: then nothing is left of the user's wish */
		{"NCCL_P2P_LEVEL", "PHB", "P2C", "P2C"},
		{"NCCL_P2P_LEVEL", "NVL", "PIX", "NVL"},
		{"NCCL_PROTO", "^LL128", NULL, "^LL128"},
		{"NCCL_PROTO", "^LL128", "Simple", "Simple"},
		{"NCCL_PROTO", "^LL128", "LL,Simple", "LL,Simple"},
		{"NCCL_PROTO", "^LL128", "LL128", "^LL128"},
		{"NCCL_PROTO", "^LL128", "LL128,Simple", "Simple"},
		{"NCCL_PROTO", "^LL128", "LL,LL128", "LL"},
		{"NCCL_PROTO", "^LL128", "ll,ll128,simple", "^LL128"},
		{"NCCL_PROTO", "^LL128", "^LL", "Simple"},
		{"NCCL_PROTO", "^LL128", "^LL128", "^LL128"},
		{"NCCL_PROTO", "^LL128", "^LL128,LL", "^LL128,LL"},
		{"NCCL_PROTO", "^LL128", "allreduce:LL128;Simple", "^LL128"},
		{"NCCL_PROTO", "^LL128", ",", "^LL128"},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct p2s_veto v = {.count = 0};
		const char *told;

		CHECK(1, p2s_veto_add(&v, rows[i].name, rows[i].ours, 0));
		told = p2s_veto_get(&v, rows[i].name, rows[i].user);
		CHECK(1, told != NULL && strcmp(told, rows[i].told) == 0);
		if (told == NULL || strcmp(told, rows[i].told) != 0)
			fprintf(stderr, "%s=%s over %s: told %s\n", rows[i].name, rows[i].ours, rows[i].user != NULL ? rows[i].user : "(unset)",
			        told != NULL ? told : "(unset)");
	}
}

static void what_is_not_ours(void)
{
	struct p2s_veto v = {.count = 0};
	const char *user = "42";
	char longer[300];

	CHECK(1, p2s_veto_get(&v, "NCCL_P2P_DISABLE", user) == user);
	CHECK(1, p2s_veto_get(&v, "NCCL_P2P_DISABLE", NULL) == NULL);
	CHECK(1, p2s_veto_add(&v, "NCCL_SOMETHING", "", 1));
	CHECK(1, p2s_veto_get(&v, "NCCL_SOMETHING", user) == NULL);
	CHECK(1, p2s_veto_get(&v, "NCCL_SOMETHING_ELSE", user) == user);
	memset(longer, 'x', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	CHECK(0, p2s_veto_add(&v, "NCCL_LONG", longer, 0));
	CHECK(0, p2s_veto_add(&v, longer, "1", 0));
	CHECK(1, v.count);
	while (v.count < P2S_VETO_ROWS)
		CHECK(1, p2s_veto_add(&v, "NCCL_MORE", "1", 0));
	CHECK(0, p2s_veto_add(&v, "NCCL_MORE", "1", 0));
}

/* The veto that needs nobody says what the library's own does. */
static void the_veto_of_all(void)
{
	char *text = NULL;
	size_t lines = 0;

	CHECK(P2PSAFE_OK, p2psafe_report_env(NULL, P2PSAFE_FORMAT_NCCL_CONF, &text, NULL));
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		char *value = strchr(line, '=');
		const char *ours;

		if (line[0] == '#' || value == NULL)
			continue;
		*value++ = '\0';
		lines++;
		ours = p2s_veto_get(&p2s_veto_of_all, line, NULL);
		CHECK(1, ours != NULL && strcmp(ours, value) == 0);
		if (ours == NULL)
			fprintf(stderr, "%s is not in the plugin's veto of all\n", line);
	}
	CHECK(p2s_veto_of_all.count, lines);
	p2psafe_string_free(text);
}

static void write_file(const char *name, const char *text, size_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(1, fd >= 0 && write(fd, text, len) == (ssize_t)len);
	close(fd);
}

static void the_test_conf(void)
{
	static const struct {
		const char *text, *why; /* NULL: accepted */
	} rows[] = {
		{"host_dir=/a/b\n", NULL},
		{"# a comment\n\nhost_dir=/a/b\r\ncuda_library=/c/d=e", NULL},
		{"cuda_library=/c\n", NULL},
		{"", "it names neither host_dir nor cuda_library"},
		{"# host_dir=/a\n", "it names neither host_dir nor cuda_library"},
		{"host_dir=a\n", "a path is not absolute"},
		{"host_dir=\n", "a path is not absolute"},
		{"host_dir=/a\nhost_dir=/b\n", "a name is there twice"},
		{"hostdir=/a\n", "it has a name other than host_dir and cuda_library"},
		{"host_dir\n", "a line is neither a comment nor NAME=VALUE"},
	};
	static char longer[5000];
	struct p2s_test_conf conf;
	const char *why;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		write_file("conf", rows[i].text, strlen(rows[i].text));
		CHECK(rows[i].why == NULL, p2s_test_conf_read(&conf, "conf", &why));
		CHECK(1, rows[i].why == NULL ? why == NULL : strcmp(rows[i].why, why) == 0);
	}
	write_file("conf", "host_dir=/a/b\ncuda_library=/c\n", 30);
	CHECK(1, p2s_test_conf_read(&conf, "conf", &why));
	CHECK(1, strcmp(conf.host_dir, "/a/b") == 0 && strcmp(conf.cuda_library, "/c") == 0);
	CHECK(0, chmod("conf", 0664));
	CHECK(1, !p2s_test_conf_read(&conf, "conf", &why) && strcmp(why, "others may write it") == 0);
	CHECK(0, chmod("conf", 0646));
	CHECK(1, !p2s_test_conf_read(&conf, "conf", &why) && strcmp(why, "others may write it") == 0);
	CHECK(0, chmod("conf", 0644));
	CHECK(0, symlink("conf", "link"));
	CHECK(1, !p2s_test_conf_read(&conf, "link", &why) && strcmp(why, "it is a link") == 0);
	CHECK(1, !p2s_test_conf_read(&conf, ".", &why) && strcmp(why, "it is no regular file") == 0);
	CHECK(1, !p2s_test_conf_read(&conf, "nowhere", &why) && strcmp(why, "there is no such file") == 0);
	CHECK(0, mkfifo("pipe", 0600)); /* nobody waits for its writer */
	CHECK(1, !p2s_test_conf_read(&conf, "pipe", &why) && strcmp(why, "it is no regular file") == 0);
	write_file("conf", "host_dir=/a\0b", 13);
	CHECK(1, !p2s_test_conf_read(&conf, "conf", &why) && strcmp(why, "it holds a zero byte") == 0);
	memset(longer, '#', sizeof longer);
	write_file("conf", longer, sizeof longer);
	CHECK(1, !p2s_test_conf_read(&conf, "conf", &why) && strcmp(why, "it is too long") == 0);
	if (geteuid() == 0) {
		write_file("conf", "host_dir=/a\n", 12);
		CHECK(0, chown("conf", 65534, 65534));
		CHECK(1, !p2s_test_conf_read(&conf, "conf", &why) && strcmp(why, "it belongs to somebody else") == 0);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2 || chdir(argv[1]) != 0) {
		fprintf(stderr, "usage: veto FOLDER\n");
		return 2;
	}
	over_the_users_setting();
	what_is_not_ours();
	the_veto_of_all();
	the_test_conf();
	return check_result();
}
