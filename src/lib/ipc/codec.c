#define _GNU_SOURCE
#include "ipc/codec.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEADER 8

const struct p2s_message *p2s_codec_find(const struct p2s_table *table, uint16_t id)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->messages[i].id == id)
			return &table->messages[i];
	return NULL;
}

static size_t align(size_t at, size_t to)
{
	return (at + to - 1) / to * to;
}

/* Where field f lies in the struct when the member before it ended at *at; moves *at behind it. */
static size_t place(const struct p2s_field *f, size_t *at)
{
	size_t start;

	switch (f->kind) {
	case P2S_KIND_U64:
		start = align(*at, 8);
		*at = start + 8;
		return start;
	case P2S_KIND_STR:
		start = *at;
		*at = start + f->cap;
		return start;
	case P2S_KIND_BYTES:
		start = align(*at, 4);
		*at = start + 4 + f->cap;
		return start;
	default:
		start = align(*at, 4);
		*at = start + 4;
		return start;
	}
}

static void put(unsigned char *p, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t take(const unsigned char *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

size_t p2s_codec_encode(const struct p2s_table *table, uint16_t id, const void *in, unsigned char *out)
{
	const struct p2s_message *m = p2s_codec_find(table, id);
	size_t n = HEADER;
	size_t at = 0;

	if (m == NULL)
		return 0;
	for (size_t i = 0; i < m->field_count; i++) {
		const struct p2s_field *f = &m->fields[i];
		const unsigned char *p = (const unsigned char *)in + place(f, &at);
		uint32_t v32;
		uint64_t v64;
		size_t len;

		if (n + 8 > P2S_FRAME_MAX)
			return 0;
		switch (f->kind) {
		case P2S_KIND_U64:
			memcpy(&v64, p, 8);
			put(out + n, v64, 8);
			n += 8;
			break;
		case P2S_KIND_STR:
		case P2S_KIND_BYTES:
			if (f->kind == P2S_KIND_STR) {
				len = strnlen((const char *)p, (size_t)f->cap - 1);
			} else {
				memcpy(&v32, p, 4);
				len = v32 < f->cap ? v32 : f->cap;
				p += 4;
			}
			if (n + 2 + len > P2S_FRAME_MAX)
				return 0;
			put(out + n, len, 2);
			memcpy(out + n + 2, p, len);
			n += 2 + len;
			break;
		default:
			memcpy(&v32, p, 4);
			put(out + n, v32, 4);
			n += 4;
			break;
		}
	}
	put(out, P2S_FRAME_MAGIC, 4);
	put(out + 4, id, 2);
	put(out + 6, n, 2);
	return n;
}

uint16_t p2s_codec_decode(const struct p2s_table *table, const unsigned char *frame, size_t len, void *out, size_t cap)
{
	const struct p2s_message *m;
	size_t n = HEADER;
	size_t at = 0;

	memset(out, 0, cap);
	if (len < HEADER || len > P2S_FRAME_MAX || take(frame, 4) != P2S_FRAME_MAGIC || take(frame + 6, 2) != len)
		return 0;
	m = p2s_codec_find(table, (uint16_t)take(frame + 4, 2));
	if (m == NULL || m->size > cap)
		return 0;
	for (size_t i = 0; i < m->field_count; i++) {
		const struct p2s_field *f = &m->fields[i];
		unsigned char *p = (unsigned char *)out + place(f, &at);
		size_t width = f->kind == P2S_KIND_U64 ? 8 : f->kind == P2S_KIND_STR || f->kind == P2S_KIND_BYTES ? 2 : 4;
		uint64_t v;

		if (len - n < width)
			goto bad;
		v = take(frame + n, width);
		n += width;
		if (width == 2) {
			size_t room = f->kind == P2S_KIND_STR ? (size_t)f->cap - 1 : f->cap;

			if (v > room || len - n < v)
				goto bad;
			if (f->kind == P2S_KIND_STR && memchr(frame + n, '\0', (size_t)v) != NULL)
				goto bad;
			if (f->kind == P2S_KIND_BYTES) {
				uint32_t v32 = (uint32_t)v;

				memcpy(p, &v32, 4);
				p += 4;
			}
			memcpy(p, frame + n, (size_t)v);
			n += (size_t)v;
		} else if (width == 4) {
			uint32_t v32 = (uint32_t)v;

			memcpy(p, &v32, 4);
		} else {
			memcpy(p, &v, 8);
		}
	}
	if (n != len)
		goto bad;
	return m->id;
bad:
	memset(out, 0, cap);
	return 0;
}

uint64_t p2s_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static enum p2s_io wait_for(int sock, short events, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd p = {.fd = sock, .events = events};
		uint64_t now = p2s_now_ns();
		uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
		struct timespec ts = {.tv_sec = (time_t)(left / UINT64_C(1000000000)), .tv_nsec = (long)(left % UINT64_C(1000000000))};
		int r = ppoll(&p, 1, &ts, NULL);

		if (r > 0)
			return P2S_IO_OK;
		if (r == 0 && left == 0)
			return P2S_IO_TIMEOUT;
		if (r < 0 && errno != EINTR)
			return P2S_IO_ERROR;
	}
}

enum p2s_io p2s_codec_send(int sock, const struct p2s_table *table, uint16_t id, const void *in, int fd, uint64_t deadline_ns)
{
	unsigned char frame[P2S_FRAME_MAX];
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = frame};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	iov.iov_len = p2s_codec_encode(table, id, in, frame);
	if (iov.iov_len == 0)
		return P2S_IO_BAD;
	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control.space;
		msg.msg_controllen = sizeof control.space;
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof fd);
	}
	for (;;) {
		ssize_t r = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		enum p2s_io io;

		if (r >= 0)
			return P2S_IO_OK;
		if (errno == EINTR)
			continue;
		if (errno == EPIPE || errno == ECONNRESET)
			return P2S_IO_EOF;
		if (errno != EAGAIN && errno != ENOBUFS)
			return P2S_IO_ERROR;
		io = wait_for(sock, POLLOUT, deadline_ns);
		if (io != P2S_IO_OK)
			return io;
	}
}

enum p2s_io p2s_codec_recv(int sock, const struct p2s_table *table, uint16_t *id, void *out, size_t cap, int *fd,
                           uint64_t deadline_ns)
{
	unsigned char frame[P2S_FRAME_MAX];
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = frame, .iov_len = sizeof frame};
	struct msghdr msg;
	int got = -1;
	ssize_t r;

	*id = 0;
	if (fd != NULL)
		*fd = -1;
	for (;;) {
		enum p2s_io io;

		memset(&msg, 0, sizeof msg);
		msg.msg_iov = &iov;
		msg.msg_iovlen = 1;
		msg.msg_control = control.space;
		msg.msg_controllen = sizeof control.space;
		r = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (r >= 0)
			break;
		if (errno == EINTR)
			continue;
		if (errno == ECONNRESET)
			return P2S_IO_EOF;
		if (errno != EAGAIN)
			return P2S_IO_ERROR;
		io = wait_for(sock, POLLIN, deadline_ns);
		if (io != P2S_IO_OK)
			return io;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int one;

			memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof one);
			if (got < 0 && fd != NULL)
				got = one;
			else
				close(one);
		}
	}
	if (r == 0 && got < 0)
		return P2S_IO_EOF;
	*id = msg.msg_flags & MSG_TRUNC ? 0 : p2s_codec_decode(table, frame, (size_t)r, out, cap);
	if (*id == 0) {
		if (got >= 0)
			close(got);
		return P2S_IO_BAD;
	}
	if (fd != NULL)
		*fd = got;
	return P2S_IO_OK;
}
