// SRT by libsrt: the functions that foreign.rs calls. A live connection is for messages, a file connection for the file.
#include <arpa/inet.h>
#include <srt/srt.h>
#include <stdio.h>
#include <string.h>

// The longest message of the live mode in SRT's own documentation: seven packets of MPEG-TS.
#define LIVE_PAYLOAD 1316

static int failed(const char *what) {
    fprintf(stderr, "srt: %s: %s\n", what, srt_getlasterror_str());
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

static int set(SRTSOCKET s, SRT_SOCKOPT option, int value) {
    return srt_setsockflag(s, option, &value, sizeof value);
}

static SRTSOCKET new_socket(int latency, int is_file) {
    if (srt_startup() < 0) return failed("startup");
    SRTSOCKET s = srt_create_socket();
    if (s < 0) return failed("socket");
    if (set(s, SRTO_TRANSTYPE, is_file ? SRTT_FILE : SRTT_LIVE) < 0) return failed("transmission type");
    if (!is_file && (set(s, SRTO_LATENCY, latency) < 0 || set(s, SRTO_PAYLOADSIZE, LIVE_PAYLOAD) < 0)) return failed("latency");
    return s;
}

int rival_srt_accept(const char *ip, int port, int latency, int is_file) {
    SRTSOCKET listener = new_socket(latency, is_file);
    if (listener < 0) return listener;
    struct sockaddr_in a = address(ip, port);
    if (srt_bind(listener, (struct sockaddr *)&a, sizeof a) < 0 || srt_listen(listener, 4) < 0) return failed("listen");
    SRTSOCKET s = srt_accept(listener, NULL, NULL);
    return s < 0 ? failed("accept") : s;
}

int rival_srt_connect(const char *ip, int port, int latency, int is_file) {
    SRTSOCKET s = new_socket(latency, is_file);
    if (s < 0) return s;
    struct sockaddr_in a = address(ip, port);
    return srt_connect(s, (struct sockaddr *)&a, sizeof a) < 0 ? failed("connect") : s;
}

int rival_srt_send(int handle, const void *bytes, int length) {
    int sent = srt_send(handle, bytes, length);
    return sent < 0 ? failed("send") : sent;
}

int rival_srt_receive(int handle, void *bytes, int most) {
    int got = srt_recv(handle, bytes, most);
    return got < 0 ? failed("receive") : got;
}
