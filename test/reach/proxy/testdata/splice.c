/*
 * The least that a program can do to carry TCP connections: two threads for
 * each, which have the kernel move the bytes, and nothing besides. For
 * go run ./test/reach/proxy -copy; Linux only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 }; /* the most that a pipe may hold without a privilege */

struct direction {
	int from, to;
};

static void *carry(void *arg)
{
	struct direction d = *(struct direction *)arg;
	int p[2];

	free(arg);
	if (pipe(p) != 0 || fcntl(p[1], F_SETPIPE_SZ, CHUNK) < 0)
		exit(1);
	for (;;) {
		ssize_t n = splice(d.from, NULL, p[1], NULL, CHUNK, SPLICE_F_MOVE);
		if (n <= 0)
			break;
		while (n > 0) {
			ssize_t m = splice(p[0], NULL, d.to, NULL, n, SPLICE_F_MOVE);
			if (m <= 0)
				exit(1);
			n -= m;
		}
	}
	shutdown(d.to, SHUT_WR);
	close(p[0]);
	close(p[1]);
	return NULL;
}

static void begin(int from, int to)
{
	struct direction *d = malloc(sizeof *d);
	pthread_t t;

	if (d == NULL)
		exit(1);
	*d = (struct direction){from, to};
	if (pthread_create(&t, NULL, carry, d) != 0)
		exit(1);
	pthread_detach(t);
}

int main(void)
{
	const char *on = getenv("HOST"), *port = getenv("PORT"), *to = getenv("TO");
	struct sockaddr_in here = {.sin_family = AF_INET}, there = {.sin_family = AF_INET};
	char host[64];
	int yes = 1, l = socket(AF_INET, SOCK_STREAM, 0);

	if (on == NULL || port == NULL || to == NULL || inet_pton(AF_INET, on, &here.sin_addr) != 1 ||
	    sscanf(to, "%63[^:]", host) != 1 ||
	    inet_pton(AF_INET, host, &there.sin_addr) != 1) {
		fprintf(stderr, "splice: HOST, PORT and TO=ADDRESS:PORT are needed\n");
		return 2;
	}
	there.sin_port = htons((uint16_t)atoi(strchr(to, ':') + 1));
	here.sin_port = htons((uint16_t)atoi(port));
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(l, (struct sockaddr *)&here, sizeof here) != 0 || listen(l, 64) != 0) {
		perror("splice");
		return 1;
	}
	for (;;) {
		int a = accept(l, NULL, NULL), b = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(b, (struct sockaddr *)&there, sizeof there) != 0) {
			close(a);
			close(b);
			continue;
		}
		setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
		setsockopt(b, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
		begin(a, b);
		begin(b, a);
	}
}
