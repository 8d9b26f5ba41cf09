/* The raw limit: receive frames, write them to a file, answer each with 40 bytes, and nothing else.
 *
 *     raw_limit PORT FILE
 *
 * All frames that have arrived on a connection are written by one write and answered by one send, as a broker that
 * joins its work does at best. What a real broker costs above this is what its features cost. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, ANSWER_BYTES = 40, MAX_DESCRIPTORS = 1024, MAX_EVENTS = 64, FILE_BYTES = 1 << 28 };

struct connection {
    unsigned char *buffer;
    size_t filled;
};

static struct connection connections[MAX_DESCRIPTORS];
static unsigned char answers[BUFFER_BYTES / 8 * ANSWER_BYTES];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void end_connection(int descriptor) {
    close(descriptor);
    free(connections[descriptor].buffer);
    connections[descriptor].buffer = NULL;
}

/* Write and answer all whole frames of a connection; keep the rest for later. */
static int serve(int descriptor, int file) {
    struct connection *self = &connections[descriptor];
    ssize_t received = recv(descriptor, self->buffer + self->filled, BUFFER_BYTES - self->filled, 0);
    if (received <= 0) return -1;
    self->filled += (size_t)received;

    size_t end = 0, count = 0;
    while (self->filled - end >= 4) {
        uint32_t size;
        memcpy(&size, self->buffer + end, 4);
        size = ntohl(size) + 4;
        if (size > BUFFER_BYTES) return -1;
        if (self->filled - end < size) break;
        end += size;
        count++;
    }
    if (!count) return 0;
    /* Begin anew from time to time: a broker appends to fresh pages too, and its old ones are deleted. */
    if (lseek(file, 0, SEEK_CUR) > FILE_BYTES && (ftruncate(file, 0) || lseek(file, 0, SEEK_SET))) fail("truncate");
    if (write(file, self->buffer, end) != (ssize_t)end) fail("write");
    if (send(descriptor, answers, count * ANSWER_BYTES, MSG_NOSIGNAL) < 0) return -1;
    memmove(self->buffer, self->buffer + end, self->filled - end);
    self->filled -= end;
    return 0;
}

int main(int count, char **arguments) {
    if (count != 3) return fprintf(stderr, "usage: raw_limit PORT FILE\n"), 2;
    for (size_t at = 0; at < sizeof answers; at += ANSWER_BYTES) answers[at + 3] = ANSWER_BYTES - 4;
    int file = open(arguments[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0), yes = 1;
    if (file < 0 || listener < 0 || poll < 0) fail("set-up");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 64)) fail("bind");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[MAX_EVENTS];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);

    for (;;) {
        int number = epoll_wait(poll, ready, MAX_EVENTS, -1);
        for (int at = 0; at < number; at++) {
            int descriptor = ready[at].data.fd;
            if (descriptor != listener) {
                if (serve(descriptor, file)) end_connection(descriptor);
                continue;
            }
            descriptor = accept(listener, NULL, NULL);
            if (descriptor < 0 || descriptor >= MAX_DESCRIPTORS) fail("accept");
            setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            connections[descriptor] = (struct connection){.buffer = malloc(BUFFER_BYTES)};
            event = (struct epoll_event){.events = EPOLLIN, .data.fd = descriptor};
            epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event);
        }
    }
}
