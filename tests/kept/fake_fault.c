/* The modes of P2PSAFE_SIM_FAULT:
 *     silent       says nothing more, and stays
 *     stop         is stopped, as by SIGSTOP or a debugger
 *     kill         is killed
 *     exit         ends as if all were well
 *     flood        as many messages as the socket takes, without end
 *     drip         a harmless message now and then, without end
 *     noise        as many frames without sense as the socket takes, without end
 *     half         half a frame, then nothing more
 *     grandchild   leaves a child behind that ignores signals and holds the socket open, and ends
 *     orphans      the same with eight children, and is killed
 *     deaf         goes on, but never reads again: what we say to it stays in the socket
 */
#define _GNU_SOURCE
#include "fake_fault.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ipc/proto.h"

static void forever(void)
{
	for (;;)
		pause();
}

static void trace(uint16_t id)
{
	const char *path = getenv("P2PSAFE_SIM_TRACE");
	char line[16];
	int fd;
	int n;

	if (path == NULL)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	n = snprintf(line, sizeof line, "%u\n", (unsigned)id);
	if (fd < 0 || write(fd, line, (size_t)n) != n)
		_exit(9);
	close(fd);
}

static void progress(int sock, long pause_ns)
{
	struct p2s_lib_progress p = {.phase = "never mind", .done = 1, .of = 2};

	for (;;) {
		struct timespec ts = {.tv_nsec = pause_ns};

		if (p2s_codec_send(sock, &p2s_lib_table, p2s_id_lib_progress, &p, -1, p2s_now_ns() + UINT64_C(60000000000)) != P2S_IO_OK)
			_exit(0);
		if (pause_ns > 0)
			nanosleep(&ts, NULL);
	}
}

/* From several processes, so that who listens finds another message before it has done with the last. */
static void flood(int sock)
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			break;
	progress(sock, 0);
}

static void noise(int sock)
{
	unsigned char frame[600];

	memset(frame, 0xa5, sizeof frame);
	for (;;)
		if (send(sock, frame, sizeof frame, MSG_NOSIGNAL) < 0)
			_exit(0);
}

/* The first half of a frame that promises more. */
static void half(int sock)
{
	static const unsigned char frame[] = {0x20, 0x00, 0x00, 0x00, 0x14, 0x00};

	send(sock, frame, sizeof frame, MSG_NOSIGNAL);
	forever();
}

static void leave_behind(int children)
{
	for (int i = 0; i < children; i++) {
		if (fork() == 0) {
			signal(SIGTERM, SIG_IGN);
			signal(SIGHUP, SIG_IGN);
			signal(SIGINT, SIG_IGN);
			forever();
		}
	}
}

static void go_wrong(int sock, const char *mode)
{
	if (strcmp(mode, "silent") == 0)
		forever();
	else if (strcmp(mode, "stop") == 0)
		raise(SIGSTOP);
	else if (strcmp(mode, "kill") == 0)
		raise(SIGKILL);
	else if (strcmp(mode, "exit") == 0)
		_exit(0);
	else if (strcmp(mode, "flood") == 0)
		flood(sock);
	else if (strcmp(mode, "drip") == 0)
		progress(sock, 20000000);
	else if (strcmp(mode, "noise") == 0)
		noise(sock);
	else if (strcmp(mode, "half") == 0)
		half(sock);
	else if (strcmp(mode, "deaf") == 0)
		shutdown(sock, SHUT_RD);
	else if (strcmp(mode, "grandchild") == 0)
		leave_behind(1), _exit(0);
	else if (strcmp(mode, "orphans") == 0)
		leave_behind(8), raise(SIGKILL);
	else
		_exit(9);
}

void fault_before(int sock, uint16_t id)
{
	static int said;
	const char *fault = getenv("P2PSAFE_SIM_FAULT");
	char mode[32];
	int at;

	trace(id);
	said++;
	if (fault != NULL && sscanf(fault, "%d %31s", &at, mode) == 2 && at == said)
		go_wrong(sock, mode);
}
