// SCTP by usrsctp, over UDP (RFC 6951): the functions that foreign.rs calls. Messages and file have an association each.
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <usrsctp.h>

#define MOST_SOCKETS 4
#define UDP_PORT 9899

static struct socket *sockets[MOST_SOCKETS];
static int lifetimes[MOST_SOCKETS];
static int count;

static int failed(const char *what) {
    fprintf(stderr, "usrsctp: %s: %s\n", what, strerror(errno));
    return -1;
}

static struct sockaddr_in address(const char *ip, int port) {
    struct sockaddr_in a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_port = htons((unsigned short)port);
    inet_pton(AF_INET, ip, &a.sin_addr);
    return a;
}

// The library uses UDP port 9899 for all associations; the SCTP ports tell them apart. Must not be called by two threads at once.
static void begin(void) {
    static int begun;
    if (!begun++) usrsctp_init(UDP_PORT, NULL, NULL);
}

static struct socket *new_socket(int is_sender) {
    begin();
    struct socket *s = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (!s) return NULL;
    int on = 1;
    usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
    int buffer = 1 << 20;
    usrsctp_setsockopt(s, SOL_SOCKET, is_sender ? SO_SNDBUF : SO_RCVBUF, &buffer, sizeof buffer);
    return s;
}

static int keep(struct socket *s, int lifetime) {
    if (count == MOST_SOCKETS) return failed("too many sockets");
    sockets[count] = s;
    lifetimes[count] = lifetime;
    return count++;
}

int rival_usrsctp_accept(const char *ip, int port, int lifetime, int is_file) {
    (void)is_file;
    struct socket *listener = new_socket(0);
    if (!listener) return failed("socket");
    struct sockaddr_in a = address(ip, port);
    if (usrsctp_bind(listener, (struct sockaddr *)&a, sizeof a) < 0 || usrsctp_listen(listener, 1) < 0) return failed("listen");
    struct socket *s = usrsctp_accept(listener, NULL, NULL);
    return s ? keep(s, lifetime) : failed("accept");
}

int rival_usrsctp_connect(const char *ip, int port, int lifetime, int is_file) {
    (void)is_file;
    struct socket *s = new_socket(1);
    if (!s) return failed("socket");
    struct sctp_udpencaps encaps;
    memset(&encaps, 0, sizeof encaps);
    encaps.sue_address.ss_family = AF_INET;
    encaps.sue_port = htons(UDP_PORT);
    if (usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps) < 0) return failed("encapsulation");
    struct sockaddr_in a = address(ip, port);
    return usrsctp_connect(s, (struct sockaddr *)&a, sizeof a) < 0 ? failed("connect") : keep(s, lifetime);
}

int rival_usrsctp_send(int handle, const void *bytes, int length) {
    struct sctp_sendv_spa spa;
    memset(&spa, 0, sizeof spa);
    spa.sendv_flags = SCTP_SEND_SNDINFO_VALID;
    if (lifetimes[handle]) {
        spa.sendv_sndinfo.snd_flags = SCTP_UNORDERED;
        spa.sendv_flags |= SCTP_SEND_PRINFO_VALID;
        spa.sendv_prinfo.pr_policy = SCTP_PR_SCTP_TTL;
        spa.sendv_prinfo.pr_value = (uint32_t)lifetimes[handle];
    }
    ssize_t sent = usrsctp_sendv(sockets[handle], bytes, (size_t)length, NULL, 0, &spa, sizeof spa, SCTP_SENDV_SPA, 0);
    return sent < 0 ? failed("send") : (int)sent;
}

// Returns a whole message: a long one is read in parts.
int rival_usrsctp_receive(int handle, void *bytes, int most) {
    int length = 0;
    for (;;) {
        int flags = 0;
        unsigned info_type = 0;
        socklen_t from_length = 0, info_length = 0;
        ssize_t got = usrsctp_recvv(sockets[handle], (char *)bytes + length, (size_t)(most - length), NULL, &from_length, NULL, &info_length,
                                    &info_type, &flags);
        if (got <= 0) return failed("receive");
        if (flags & MSG_NOTIFICATION) continue;
        length += (int)got;
        if ((flags & MSG_EOR) || length == most) return length;
    }
}
