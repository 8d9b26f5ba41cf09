/* The raw limit: receive frames, write them to a file, answer each, and nothing else.
 *
 *     raw_limit PORT FILE             each frame is answered with 40 bytes
 *     raw_limit PORT FILE BROKER      speaks Kafka's protocol: a Produce is answered as if all were well, whatever
 *                                     else a client asks is asked of the broker on that port, one after the other
 *
 * All frames that have arrived on a connection are written by one write and answered by one send, as a broker that
 * joins its work does at best. What a real broker costs above this is what its features cost; what a real client
 * reaches with it is what that client can reach at all. */
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

enum { BUFFER_BYTES = 1 << 21, ANSWER_BYTES = 40, MAX_DESCRIPTORS = 1024, MAX_EVENTS = 64, FILE_BYTES = 1 << 28 };
enum { PRODUCE = 0, PRODUCE_VERSION = 13, TOPIC_ID_BYTES = 16, PARTITION_ANSWER_BYTES = 33 };

struct connection {
    unsigned char *buffer;
    size_t filled;
    int broker; /* whom other questions are passed on to, or -1 */
};

static struct connection connections[MAX_DESCRIPTORS];
static unsigned char answers[BUFFER_BYTES];
static int broker_port;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void end_connection(int descriptor) {
    struct connection *self = &connections[descriptor];
    close(descriptor);
    if (self->broker >= 0) close(self->broker);
    free(self->buffer);
    self->buffer = NULL;
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static uint32_t read_u32(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static void write_u32(unsigned char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
}

/* Kafka's unsigned varint; lengths of compact arrays and strings are one larger than what they count. */
static uint32_t read_varint(const unsigned char **at) {
    uint32_t value = 0;
    for (int shift = 0;; shift += 7) {
        unsigned char byte = *(*at)++;
        value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

static void skip_tags(const unsigned char **at) {
    for (uint32_t left = read_varint(at); left; left--) {
        read_varint(at);
        uint32_t size = read_varint(at);
        *at += size;
    }
}

/* Answer a Produce of version 13: every partition is written, at offset 0. Topics and partitions are fewer than 127. */
static size_t answer_produce(const unsigned char *frame, unsigned char *answer) {
    const unsigned char *at = frame + 12;
    uint16_t client_id_bytes = (uint16_t)(at[0] << 8 | at[1]);
    at += 2 + (client_id_bytes == 0xffff ? 0 : client_id_bytes);
    skip_tags(&at);
    uint32_t transactional_id = read_varint(&at);
    at += (transactional_id ? transactional_id - 1 : 0) + 2 + 4; /* acks, timeout */
    memcpy(answer + 4, frame + 8, 4);                            /* the correlation id */
    unsigned char *out = answer + 8;
    *out++ = 0; /* no tags in the header */
    uint32_t topics = read_varint(&at);
    *out++ = (unsigned char)topics;
    while (--topics) {
        memcpy(out, at, TOPIC_ID_BYTES);
        at += TOPIC_ID_BYTES, out += TOPIC_ID_BYTES;
        uint32_t partitions = read_varint(&at);
        *out++ = (unsigned char)partitions;
        while (--partitions) {
            memset(out, 0, PARTITION_ANSWER_BYTES);
            memcpy(out, at, 4);         /* index; then error 2, base offset 8 */
            memset(out + 14, 0xff, 8);  /* no append time; then log start offset 8 */
            out[30] = 1;                /* no record errors; no message, no tags */
            at += 4, out += PARTITION_ANSWER_BYTES;
            uint32_t records = read_varint(&at);
            at += records ? records - 1 : 0;
            skip_tags(&at);
        }
        skip_tags(&at);
        *out++ = 0;
    }
    memset(out, 0, 5); /* not throttled, no tags */
    out += 5;
    write_u32(answer, (uint32_t)(out - answer) - 4);
    return (size_t)(out - answer);
}

static void transfer(int descriptor, unsigned char *at, size_t size, int is_send) {
    while (size) {
        ssize_t step = is_send ? send(descriptor, at, size, MSG_NOSIGNAL) : recv(descriptor, at, size, 0);
        if (step <= 0) fail("the broker behind");
        at += step, size -= (size_t)step;
    }
}

/* Ask the broker behind, and wait for its answer. */
static size_t pass_on(struct connection *self, unsigned char *frame, size_t size, unsigned char *answer, size_t room) {
    if (self->broker < 0) {
        struct sockaddr_in address = loopback(broker_port);
        self->broker = socket(AF_INET, SOCK_STREAM, 0);
        if (self->broker < 0 || connect(self->broker, (struct sockaddr *)&address, sizeof address)) fail("connect");
    }
    transfer(self->broker, frame, size, 1);
    transfer(self->broker, answer, 4, 0);
    size_t answer_bytes = read_u32(answer);
    if (answer_bytes + 4 > room) fail("an answer that is too large");
    transfer(self->broker, answer + 4, answer_bytes, 0);
    return answer_bytes + 4;
}

static size_t answer_frame(struct connection *self, unsigned char *frame, size_t size, unsigned char *answer, size_t room) {
    if (!broker_port) {
        memset(answer, 0, ANSWER_BYTES);
        answer[3] = ANSWER_BYTES - 4;
        return ANSWER_BYTES;
    }
    int key = frame[4] << 8 | frame[5], version = frame[6] << 8 | frame[7];
    if (key != PRODUCE) return pass_on(self, frame, size, answer, room);
    if (version != PRODUCE_VERSION) fprintf(stderr, "Produce of version %d\n", version), exit(1);
    return answer_produce(frame, answer);
}

/* Write and answer all whole frames of a connection; keep the rest for later. */
static int serve(int descriptor, int file) {
    struct connection *self = &connections[descriptor];
    ssize_t received = recv(descriptor, self->buffer + self->filled, BUFFER_BYTES - self->filled, 0);
    if (received <= 0) return -1;
    self->filled += (size_t)received;

    size_t end = 0, answered = 0;
    while (self->filled - end >= 4) {
        size_t size = (size_t)read_u32(self->buffer + end) + 4;
        if (size > BUFFER_BYTES) return -1;
        if (self->filled - end < size) break;
        answered += answer_frame(self, self->buffer + end, size, answers + answered, sizeof answers - answered);
        end += size;
    }
    if (!answered) return 0;
    /* Begin anew from time to time: a broker appends to fresh pages too, and its old ones are deleted. */
    if (lseek(file, 0, SEEK_CUR) > FILE_BYTES && (ftruncate(file, 0) || lseek(file, 0, SEEK_SET))) fail("truncate");
    if (write(file, self->buffer, end) != (ssize_t)end) fail("write");
    if (send(descriptor, answers, answered, MSG_NOSIGNAL) < 0) return -1;
    memmove(self->buffer, self->buffer + end, self->filled - end);
    self->filled -= end;
    return 0;
}

int main(int count, char **arguments) {
    if (count != 3 && count != 4) return fprintf(stderr, "usage: raw_limit PORT FILE [BROKER]\n"), 2;
    broker_port = count == 4 ? atoi(arguments[3]) : 0;
    int file = open(arguments[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0), yes = 1;
    if (file < 0 || listener < 0 || poll < 0) fail("set-up");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in address = loopback(atoi(arguments[1]));
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
            connections[descriptor] = (struct connection){.buffer = malloc(BUFFER_BYTES), .broker = -1};
            event = (struct epoll_event){.events = EPOLLIN, .data.fd = descriptor};
            epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event);
        }
    }
}
