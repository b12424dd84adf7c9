#define _GNU_SOURCE
#include "worker_drive.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_NS UINT64_C(15000000000)

int drive_memfd(uint64_t bytes)
{
	int fd = memfd_create("drive", MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void keep_open(int fd)
{
	fcntl(fd, F_SETFD, 0);
}

int drive_start(struct drive *d, const char *program, const char *library, const char *host, int memory, int count)
{
	int theirs[DRIVE_CHANNELS];
	char numbers[DRIVE_CHANNELS][12];
	char text[12];
	char *argv[DRIVE_CHANNELS + 3] = {(char *)(uintptr_t)program, (char *)(uintptr_t)library};

	memset(d, 0, sizeof *d);
	d->count = count;
	for (int i = 0; i < count; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
			return 0;
		d->sock[i] = pair[0];
		theirs[i] = pair[1];
		d->control_fd[i] = drive_memfd(P2S_CTL_BYTES);
		d->control[i] = mmap(NULL, P2S_CTL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, d->control_fd[i], 0);
		if (d->control[i] == MAP_FAILED)
			return 0;
		snprintf(numbers[i], sizeof numbers[i], "%d", theirs[i]);
		argv[i + 2] = numbers[i];
	}
	argv[count + 2] = NULL;
	d->pid = fork();
	if (d->pid == 0) {
		for (int i = 0; i < count; i++)
			keep_open(theirs[i]);
		setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
		setenv("CUDA_MODULE_LOADING", "EAGER", 1);
		if (host != NULL)
			setenv("P2PSAFE_SIM_HOST", host, 1);
		if (memory >= 0) {
			keep_open(memory);
			snprintf(text, sizeof text, "%d", memory);
			setenv("P2PSAFE_SIM_FD", text, 1);
		}
		execv(program, argv);
		_exit(127);
	}
	for (int i = 0; i < count; i++)
		close(theirs[i]);
	return d->pid > 0;
}

int drive_send(struct drive *d, int channel, struct p2s_op_request *q, int fd)
{
	q->seq = ++d->seq[channel];
	if (q->timeout_ns == 0)
		q->timeout_ns = UINT64_C(5000000000);
	return p2s_codec_send(d->sock[channel], &p2s_op_table, p2s_id_op_request, q, fd, p2s_now_ns() + ANSWER_NS) == P2S_IO_OK;
}

int drive_receive(struct drive *d, int channel, int *got, struct p2s_op_answer *a)
{
	union p2s_op_any any;
	uint16_t id = 0;
	enum p2s_io io = p2s_codec_recv(d->sock[channel], &p2s_op_table, &id, &any, sizeof any, got, p2s_now_ns() + ANSWER_NS);

	memset(a, 0, sizeof *a);
	if (io == P2S_IO_EOF)
		return -2;
	if (io != P2S_IO_OK)
		return -1;
	if (id == p2s_id_op_device && any.device.seq == d->seq[channel]) {
		d->device[channel] = any.device;
		return P2S_RC_OK;
	}
	if (id != p2s_id_op_answer || any.answer.seq != d->seq[channel])
		return -1;
	*a = any.answer;
	return a->rc;
}

int drive_ask(struct drive *d, int channel, struct p2s_op_request *q, int fd, int *got, struct p2s_op_answer *a)
{
	if (!drive_send(d, channel, q, fd))
		return -2;
	return drive_receive(d, channel, got, a);
}

int drive_init(struct drive *d, int channel, const char *address, struct p2s_op_answer *a)
{
	struct p2s_op_request q = {.op = P2S_OP_INIT, .mode = d->init_mode, .timeout_ns = UINT64_C(10000000000)};

	snprintf(q.text, sizeof q.text, "%s", address);
	return drive_ask(d, channel, &q, d->control_fd[channel], NULL, a);
}

void drive_clear(struct drive *d, int channel)
{
	d->control[channel]->ready[0].word = 0;
	d->control[channel]->ready[1].word = 0;
	d->control[channel]->go.word = 0;
	d->control[channel]->abort.word = 0;
	__sync_synchronize();
}

int drive_go(struct drive *d, int channel, int roles)
{
	uint64_t start = p2s_now_ns();

	while (p2s_now_ns() - start < UINT64_C(10000000000)) {
		__sync_synchronize();
		if (d->control[channel]->ready[0].word == 1 && (roles < 2 || d->control[channel]->ready[1].word == 1)) {
			d->control[channel]->go.word = 1;
			return 1;
		}
		usleep(20);
	}
	return 0;
}

int drive_wait(struct drive *d, int ms)
{
	int status = 0;

	for (int t = 0; d->pid > 0 && t <= ms; t += 5) {
		if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
			d->pid = 0;
			return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
		}
		usleep(5000);
	}
	return -1;
}

void drive_end(struct drive *d)
{
	for (int i = 0; i < d->count; i++) {
		if (d->sock[i] >= 0)
			close(d->sock[i]);
		close(d->control_fd[i]);
	}
	if (d->pid > 0 && drive_wait(d, 2000) < 0) {
		kill(d->pid, SIGKILL);
		waitpid(d->pid, NULL, 0);
	}
	for (int i = 0; i < d->count; i++)
		munmap(d->control[i], P2S_CTL_BYTES);
}

int drive_folder(char *folder, size_t cap)
{
	int n = snprintf(folder, cap, "/tmp/p2psafe-worker-XXXXXX");

	return n > 0 && (size_t)n < cap && mkdtemp(folder) != NULL;
}

void drive_folder_end(const char *folder)
{
	char path[128];

	snprintf(path, sizeof path, "%s/cuda.json", folder);
	unlink(path);
	rmdir(folder);
}
