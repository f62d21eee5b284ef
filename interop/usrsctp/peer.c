// The usrsctp peer of the interop tests: one association, SCTP over UDP (RFC 6951) on loopback, both SCTP ports 5000.
// The command line, the message generator and the closing JSON line are those of ../README.md; ../pion/main.go
// does the same with another library. usrsctp keeps its state in the process, so a process plays one role only.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#define SCTP_PORT 5000
// The library knows this option, its installed header does not name it.
#ifndef SCTP_INTERLEAVING_SUPPORTED
#define SCTP_INTERLEAVING_SUPPORTED 0x00001206
#endif
#define PPID_BASE 0x41000000u
#define MAX_MESSAGE (1u << 20)
#define SOCKET_BUFFER (1 << 20)
#define MAX_STREAMS 1024
#define MAX_LOCALS 4
#define MAX_KEYS 4
#define MAX_AUTH 16

static struct {
    bool listen, send, log, shutdown_first;
    unsigned udp_port, local_udp_port, streams, unordered_every, timeout_s, linger_s, mtu;
    uint64_t seed, messages, expect;
    uint32_t max_size;
    // Instead of loopback: the addresses of several paths, and where to connect to.
    bool fast_failover, nr_sack;
    // I-DATA is offered, and streams take turns; all messages are of the largest size.
    bool interleave, large;
    // Several paths at once: 0 not, 1 with windows of their own, 2 and 3 resource pooling, 4 as MPTCP; and the flags that tell
    // how many packets an acknowledgement answers.
    unsigned cmt;
    bool dac;
    // Milliseconds that messages of some streams live; 0: all messages are reliable.
    unsigned partial_ms;
    // All streams are reset in both directions after so many messages; 0: never, and the peer may not either (RFC 6525).
    unsigned reset_every;
    // RFC 4895: chunk types that the peer has to sign, HMAC identifiers in order of preference, shared keys. The first key is active at
    // first; after so many messages of this side, the second is.
    int auth_chunks, auth_hmacs, auth_keys;
    uint16_t auth_chunk[MAX_AUTH], auth_hmac[MAX_AUTH];
    struct { uint16_t number; const char *secret; } auth_key[MAX_KEYS];
    uint64_t next_key_after;
    // RFC 5061: the Adaptation Code Point, and an address that comes, becomes primary or goes after so many messages of this side; 0: never.
    uint32_t adaptation;
    struct in_addr added, primary, removed;
    uint64_t add_after, primary_after, remove_after;
    int locals;
    struct in_addr local[MAX_LOCALS], remote;
} opt = {.send = true, .streams = 8, .timeout_s = 120, .mtu = 1400, .seed = 1, .messages = 100, .max_size = 262144};

static int json_fd;
static pthread_mutex_t verdict_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t received, received_bytes, sent;
static uint64_t reliable_missing; // that are still to come
static uint64_t failed, cut_short; // messages given up here, and ones that ended after parts of them had been read
static bool shutdown_seen, shutdown_complete;
static uint64_t new_keys; // notices that the peer signs with another key
static uint32_t adaptation; // the peer's Adaptation Code Point
static pthread_mutex_t halves_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned halves_done; // 1: all is sent, 2: all has come, 3: both
static struct timespec started;

// --- the end ---------------------------------------------------------------------------------------------------

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - started.tv_sec) + (double)(t.tv_nsec - started.tv_nsec) * 1e-9;
}

// Writes the one JSON line and leaves. The lock is never released: the first verdict, of whichever thread, stands.
static void finish(const char *error) {
    pthread_mutex_lock(&verdict_lock);
    struct sctpstat stat = {0};
    usrsctp_get_stat(&stat);
    char quoted[600] = "null";
    if (error) {
        size_t at = 0;
        quoted[at++] = '"';
        for (const char *c = error; *c && at < sizeof quoted - 3; c++) quoted[at++] = *c == '"' || *c == '\\' || *c < ' ' ? ' ' : *c;
        quoted[at++] = '"';
        quoted[at] = 0;
    }
    dprintf(json_fd,
            "{\"ok\":%s,\"received\":%llu,\"sent\":%llu,\"bytes\":%llu,\"error\":%s,\"peer\":\"usrsctp\",\"shutdown\":%s,"
            "\"failed\":%llu,\"cut_short\":%llu,\"auth\":{\"received\":%u,\"missing\":%u,\"wrong\":%u,\"unknown_key\":%u,"
            "\"unknown_hmac\":%u,\"new_keys\":%llu},\"adaptation\":%u,\"seconds\":%.3f}\n",
            error ? "false" : "true", (unsigned long long)received, (unsigned long long)sent,
            (unsigned long long)received_bytes, quoted, shutdown_complete ? "true" : "false", (unsigned long long)failed,
            (unsigned long long)cut_short, stat.sctps_recvauth, stat.sctps_recvauthmissing, stat.sctps_recvauthfailed,
            stat.sctps_recvivalkeyid, stat.sctps_recvivalhmacid, (unsigned long long)new_keys, adaptation, seconds());
    // Not exit(): usrsctp's threads still run and its atexit work may wait for them.
    _exit(error ? 1 : 0);
}

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    finish(text);
}

__attribute__((format(printf, 1, 2))) static void usage_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("usrsctp-peer: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

static void *watchdog(void *unused) {
    (void)unused;
    uint64_t last_in = 0, last_out = 0;
    while (seconds() < opt.timeout_s) {
        struct timespec nap = {.tv_nsec = 100 * 1000 * 1000};
        nanosleep(&nap, NULL);
        if (opt.log && (received != last_in || sent != last_out)) fprintf(stderr, "%.1f s: received %llu, sent %llu\n", seconds(), (unsigned long long)received, (unsigned long long)sent);
        last_in = received;
        last_out = sent;
    }
    fail("timeout after %u s: received %llu of %llu, sent %llu of %llu, shutdown %s", opt.timeout_s,
         (unsigned long long)received, (unsigned long long)opt.expect, (unsigned long long)sent,
         (unsigned long long)(opt.send ? opt.messages : 0), shutdown_seen ? "seen but not completed" : "not seen");
    return NULL;
}

static void debug_line(const char *format, ...) {
    if (!opt.log) return;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
}

// --- the messages ----------------------------------------------------------------------------------------------

struct message {
    uint32_t stream, size;
    bool unordered;
    uint64_t state; // where the payload's words go on from
};

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t next(uint64_t *state) { return mix(*state += 0x9e3779b97f4a7c15u); }

// Message `index` of the direction that the listening (1) or the connecting (0) side sends.
static struct message describe(unsigned direction, uint64_t index) {
    static const struct { uint32_t below, low, high; } classes[] = {
        {700, 1, 256}, {900, 257, 4096}, {987, 4097, 16384}, {996, 16385, 65536}, {1000, 65537, 262144}};
    struct message m = {.state = mix(mix(2 * opt.seed + direction) + index)};
    uint64_t class_draw = next(&m.state) % 1000, size_draw = next(&m.state), stream_draw = next(&m.state);
    unsigned c = 0;
    while (class_draw >= classes[c].below) c++;
    m.size = classes[c].low + (uint32_t)(size_draw % (classes[c].high - classes[c].low + 1));
    if (index == 0) m.size = 1;
    if (index == 1 || m.size > opt.max_size) m.size = opt.max_size;
    m.stream = (uint32_t)(stream_draw % opt.streams);
    if (opt.large) {
        m.size = opt.max_size;
        m.stream = (uint32_t)(index % opt.streams);
    }
    m.unordered = opt.unordered_every && index % opt.unordered_every == opt.unordered_every - 1;
    return m;
}

// How a message on this stream may be given up: not (0), when it was sent once (1), when its time is over (2).
static unsigned persistence(uint32_t stream) {
    if (!opt.partial_ms) return 0;
    return stream % 4 < 2 ? 0 : stream % 4 - 1;
}

static void fill(struct message m, uint8_t *out) {
    for (uint32_t at = 0; at < m.size; at += 8) {
        uint64_t word = next(&m.state);
        for (uint32_t i = 0; i < 8 && at + i < m.size; i++) out[at + i] = (uint8_t)(word >> (8 * i));
    }
}

// Both directions must be complete before a shutdown: whichever ends last starts it, where this side is the first.
static void half_done(struct socket *s, unsigned half) {
    pthread_mutex_lock(&halves_lock);
    unsigned before = halves_done;
    halves_done |= half;
    if (opt.shutdown_first && before != 3 && halves_done == 3 && usrsctp_shutdown(s, SHUT_WR) < 0) fail("shutdown: %s", strerror(errno));
    pthread_mutex_unlock(&halves_lock);
}

static bool half_is_done(unsigned half) {
    pthread_mutex_lock(&halves_lock);
    bool done = halves_done & half;
    pthread_mutex_unlock(&halves_lock);
    return done;
}

// --- sending ---------------------------------------------------------------------------------------------------

// Resets all streams both ways, or adds a stream. Where messages do not interleave, none is added: usrsctp 0.9.5 then forgets which
// message it was sending, and puts fragments of another message between its fragments. A request that is in progress refuses the next one.
static void reconfigure(struct socket *s, bool add) {
    struct sctp_reset_streams reset = {.srs_flags = SCTP_STREAM_RESET_INCOMING | SCTP_STREAM_RESET_OUTGOING};
    struct sctp_add_streams more = {.sas_outstrms = 1};
    int name = add ? SCTP_ADD_STREAMS : SCTP_RESET_STREAMS;
    const void *value = add ? (const void *)&more : (const void *)&reset;
    if (usrsctp_setsockopt(s, IPPROTO_SCTP, name, value, add ? sizeof more : sizeof reset) == 0) return;
    if (errno != EALREADY && errno != EAGAIN && errno != EINPROGRESS && errno != EBUSY) fail("reconfiguring streams: %s", strerror(errno));
}

static struct sockaddr_in loopback(unsigned port) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

// Adds an address to the socket, or removes it: usrsctp tells the peer (RFC 5061).
static void change_address(struct socket *s, struct in_addr address, int how) {
    struct sockaddr_in one = loopback(SCTP_PORT);
    one.sin_addr = address;
    if (usrsctp_bindx(s, (struct sockaddr *)&one, 1, how) < 0) fail("bindx %d: %s", how, strerror(errno));
}

// Asks the peer to send to this address of ours.
static void ask_primary(struct socket *s, struct in_addr address) {
    struct sockaddr_in one = loopback(SCTP_PORT);
    one.sin_addr = address;
    struct sctp_setpeerprim primary = {.sspp_assoc_id = SCTP_FUTURE_ASSOC};
    memcpy(&primary.sspp_addr, &one, sizeof one);
    if (usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_SET_PEER_PRIMARY_ADDR, &primary, sizeof primary) < 0) fail("setting SCTP_SET_PEER_PRIMARY_ADDR: %s", strerror(errno));
}

static void sign_with(struct socket *s, int key, sctp_assoc_t which) {
    struct sctp_authkeyid id = {.scact_assoc_id = which, .scact_keynumber = opt.auth_key[key].number};
    if (usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_AUTH_ACTIVE_KEY, &id, sizeof id) < 0) fail("setting SCTP_AUTH_ACTIVE_KEY %u: %s", id.scact_keynumber, strerror(errno));
}

static void *send_all(void *argument) {
    struct socket *s = argument;
    uint8_t *payload = malloc(opt.max_size);
    if (!payload) fail("no memory");
    for (uint64_t i = 0; opt.send && i < opt.messages; i++) {
        struct message m = describe(opt.listen, i);
        fill(m, payload);
        if (opt.next_key_after && i == opt.next_key_after) sign_with(s, 1, SCTP_FUTURE_ASSOC);
        if (opt.add_after && i == opt.add_after) change_address(s, opt.added, SCTP_BINDX_ADD_ADDR);
        if (opt.primary_after && i == opt.primary_after) ask_primary(s, opt.primary);
        if (opt.remove_after && i == opt.remove_after) change_address(s, opt.removed, SCTP_BINDX_REM_ADDR);
        struct sctp_sendv_spa info = {.sendv_flags = SCTP_SEND_SNDINFO_VALID,
                                      .sendv_sndinfo = {.snd_sid = (uint16_t)m.stream, .snd_ppid = htonl(PPID_BASE + (uint32_t)i),
                                                        .snd_flags = m.unordered ? SCTP_UNORDERED : 0}};
        if (persistence(m.stream)) {
            bool once = persistence(m.stream) == 1;
            info.sendv_flags |= SCTP_SEND_PRINFO_VALID;
            info.sendv_prinfo = (struct sctp_prinfo){.pr_policy = once ? SCTP_PR_SCTP_RTX : SCTP_PR_SCTP_TTL, .pr_value = once ? 0 : opt.partial_ms};
        }
        ssize_t n = usrsctp_sendv(s, payload, m.size, NULL, 0, &info, sizeof info, SCTP_SENDV_SPA, 0);
        // A stream that is being reset takes no message until the reset is done.
        while (n < 0 && errno == EAGAIN && opt.reset_every) {
            struct timespec nap = {.tv_nsec = 1000 * 1000};
            nanosleep(&nap, NULL);
            n = usrsctp_sendv(s, payload, m.size, NULL, 0, &info, sizeof info, SCTP_SENDV_SPA, 0);
        }
        if (n != (ssize_t)m.size) fail("sending message %llu (%u bytes, stream %u) returned %zd: %s", (unsigned long long)i, m.size, m.stream, n, strerror(errno));
        __atomic_store_n(&sent, i + 1, __ATOMIC_RELAXED);
        if (opt.reset_every && i % opt.reset_every == opt.reset_every - 1) reconfigure(s, opt.interleave && i / opt.reset_every % 3 == 0);
    }
    free(payload);
    half_done(s, 1);
    return NULL;
}

// --- receiving -------------------------------------------------------------------------------------------------

// A message that is coming in parts. usrsctp hands over parts of large messages (partial delivery) and whatever
// fits the buffer that recv was given; ordered and unordered messages of a stream are kept apart.
struct partial {
    uint8_t *data;
    size_t length, capacity;
    uint32_t ppid;
};
static struct partial partials[MAX_STREAMS][2];
static int64_t last_ordered[MAX_STREAMS];
static uint8_t *seen;
static uint8_t *expected;

static void check(uint32_t stream, bool unordered, const struct partial *p) {
    uint64_t index = (uint64_t)(p->ppid - PPID_BASE);
    if (p->ppid < PPID_BASE || index >= opt.expect) fail("payload protocol identifier 0x%08x is of no message", p->ppid);
    struct message m = describe(!opt.listen, index);
    if (seen[index]++) fail("message %llu arrived twice", (unsigned long long)index);
    if (stream != m.stream) fail("message %llu arrived on stream %u, not %u", (unsigned long long)index, stream, m.stream);
    if (p->length != m.size) fail("message %llu has %zu bytes, not %u", (unsigned long long)index, p->length, m.size);
    if (unordered != m.unordered) fail("message %llu arrived %s", (unsigned long long)index, unordered ? "unordered" : "ordered");
    fill(m, expected);
    for (uint32_t at = 0; at < m.size; at++)
        if (p->data[at] != expected[at]) fail("message %llu differs at byte %u of %u", (unsigned long long)index, at, m.size);
    if (!unordered) {
        if ((int64_t)index <= last_ordered[stream]) fail("message %llu arrived after %lld on stream %u", (unsigned long long)index, (long long)last_ordered[stream], stream);
        last_ordered[stream] = (int64_t)index;
    }
    received++;
    received_bytes += m.size;
    if (!persistence(m.stream)) reliable_missing--;
}

static void on_data(const struct sctp_rcvinfo *info, const uint8_t *data, size_t n, bool end) {
    if (info->rcv_sid >= opt.streams) fail("data on stream %u of %u", info->rcv_sid, opt.streams);
    bool unordered = info->rcv_flags & SCTP_UNORDERED;
    struct partial *p = &partials[info->rcv_sid][unordered];
    if (p->length == 0) p->ppid = ntohl(info->rcv_ppid);
    if (p->length + n > MAX_MESSAGE) fail("a message on stream %u is longer than %u bytes", info->rcv_sid, MAX_MESSAGE);
    if (p->length + n > p->capacity) {
        p->capacity = (p->length + n) * 2;
        if (!(p->data = realloc(p->data, p->capacity))) fail("no memory");
    }
    memcpy(p->data + p->length, data, n);
    p->length += n;
    if (end) {
        check(info->rcv_sid, unordered, p);
        p->length = 0;
    }
}

static void on_notification(const union sctp_notification *n, size_t length) {
    if (length < sizeof n->sn_header) fail("a notification of %zu bytes", length);
    switch (n->sn_header.sn_type) {
    case SCTP_ASSOC_CHANGE:
        debug_line("association change %u\n", n->sn_assoc_change.sac_state);
        if (n->sn_assoc_change.sac_state == SCTP_COMM_LOST) fail("communication lost (aborted, or too many retransmissions)");
        if (n->sn_assoc_change.sac_state == SCTP_CANT_STR_ASSOC) fail("the association could not be set up");
        if (n->sn_assoc_change.sac_state == SCTP_RESTART) fail("the peer restarted the association");
        if (n->sn_assoc_change.sac_state == SCTP_SHUTDOWN_COMP) shutdown_complete = true;
        break;
    case SCTP_AUTHENTICATION_EVENT:
        debug_line("authentication %u, key %u\n", n->sn_auth_event.auth_indication, n->sn_auth_event.auth_keynumber);
        if (n->sn_auth_event.auth_indication == SCTP_AUTH_NO_AUTH && opt.auth_chunks) fail("the peer does not authenticate");
        if (n->sn_auth_event.auth_indication == SCTP_AUTH_NEW_KEY) new_keys++;
        break;
    case SCTP_ADAPTATION_INDICATION: adaptation = n->sn_adaptation_event.sai_adaptation_ind; break;
    case SCTP_SHUTDOWN_EVENT: shutdown_seen = true; break;
    case SCTP_REMOTE_ERROR:
        // Cause 8 only tells that a peer does not speak the extensions offered to it (RFC 9260 §3.3.10.8).
        if (ntohs(n->sn_remote_error.sre_error) != 8 && n->sn_remote_error.sre_error != 8) fail("the peer sent ERROR with cause %u", n->sn_remote_error.sre_error);
        break;
    case SCTP_SEND_FAILED_EVENT:
        if (!persistence(n->sn_send_failed_event.ssfe_info.snd_sid)) fail("a message could not be sent (error %u)", n->sn_send_failed_event.ssfe_error);
        failed++;
        break;
    case SCTP_PARTIAL_DELIVERY_EVENT: {
        // 0.9.5 puts the stream sequence number above the stream.
        uint32_t stream = n->sn_pdapi_event.pdapi_stream & 0xffff;
        if (stream >= opt.streams || !persistence(stream)) fail("a partial delivery was aborted on stream %u", stream);
        // It does not tell whether the message was ordered; only one can be in parts at a time.
        partials[stream][0].length = partials[stream][1].length = 0;
        cut_short++;
        break;
    }
    default: break;
    }
}

// Reads until the association is over. The side told to be first shuts down once both directions are complete.
static void receive_all(struct socket *s) {
    static uint8_t buffer[1 << 16];
    if (reliable_missing == 0) half_done(s, 2);
    for (;;) {
        struct sctp_rcvinfo info = {0};
        socklen_t info_length = sizeof info, from_length = 0;
        unsigned info_type = 0;
        int flags = 0;
        ssize_t n = usrsctp_recvv(s, buffer, sizeof buffer, NULL, &from_length, &info, &info_length, &info_type, &flags);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail("receiving: %s", strerror(errno));
        if (n == 0) break;
        if (flags & MSG_NOTIFICATION) on_notification((const union sctp_notification *)buffer, (size_t)n);
        else if (info_type != SCTP_RECVV_RCVINFO) fail("data without its receive information");
        else on_data(&info, buffer, (size_t)n, flags & MSG_EOR);
        if (reliable_missing == 0 && !half_is_done(2)) half_done(s, 2);
        if (shutdown_complete) break;
    }
    if (reliable_missing) fail("the association ended after %llu of %llu messages, %llu reliable ones missing", (unsigned long long)received, (unsigned long long)opt.expect, (unsigned long long)reliable_missing);
    if (!half_is_done(1)) fail("the association ended while messages were being sent");
    if (!opt.shutdown_first && !shutdown_seen && !shutdown_complete) fail("the association ended without a SHUTDOWN of the peer");
}

// --- set-up ----------------------------------------------------------------------------------------------------

// usrsctp takes port 0 as "no encapsulation", so a free port is asked of the system beforehand.
static unsigned free_udp_port(void) {
    struct sockaddr_in a = loopback(0);
    socklen_t length = sizeof a;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || getsockname(fd, (struct sockaddr *)&a, &length) < 0) fail("no free UDP port: %s", strerror(errno));
    close(fd);
    return ntohs(a.sin_port);
}

// usrsctp_init returns nothing and goes on without a UDP socket when the port is taken; ask first.
static void require_free(unsigned port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_ANY)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0) fail("UDP port %u: %s", port, strerror(errno));
    close(fd);
}

static void set(struct socket *s, int level, int name, const void *value, socklen_t length, const char *what) {
    if (usrsctp_setsockopt(s, level, name, value, length) < 0) fail("setting %s: %s", what, strerror(errno));
}

// What the peer has to sign, and the keys (RFC 6458 §8.3). Without any of it, usrsctp signs what the peer asks for with an empty key 0.
static void authenticate(struct socket *s) {
    for (int i = 0; i < opt.auth_chunks; i++) {
        struct sctp_authchunk one = {.sauth_chunk = (uint8_t)opt.auth_chunk[i]};
        set(s, IPPROTO_SCTP, SCTP_AUTH_CHUNK, &one, sizeof one, "SCTP_AUTH_CHUNK");
    }
    if (opt.auth_hmacs) {
        struct { struct sctp_hmacalgo list; uint16_t idents[MAX_AUTH]; } hmacs = {.list.shmac_number_of_idents = (uint32_t)opt.auth_hmacs};
        size_t length = (size_t)opt.auth_hmacs * sizeof *opt.auth_hmac;
        memcpy((uint8_t *)&hmacs + sizeof hmacs.list, opt.auth_hmac, length);
        set(s, IPPROTO_SCTP, SCTP_HMAC_IDENT, &hmacs, (socklen_t)(sizeof hmacs.list + length), "SCTP_HMAC_IDENT");
    }
    for (int i = 0; i < opt.auth_keys; i++) {
        size_t length = strlen(opt.auth_key[i].secret);
        struct sctp_authkey *key = calloc(1, sizeof *key + length);
        if (!key) fail("no memory");
        key->sca_assoc_id = SCTP_FUTURE_ASSOC;
        key->sca_keynumber = opt.auth_key[i].number;
        key->sca_keylength = (uint16_t)length;
        memcpy(key->sca_key, opt.auth_key[i].secret, length);
        set(s, IPPROTO_SCTP, SCTP_AUTH_KEY, key, (socklen_t)(sizeof *key + length), "SCTP_AUTH_KEY");
        free(key);
    }
    if (opt.auth_keys) sign_with(s, 0, SCTP_FUTURE_ASSOC);
}

static void configure(struct socket *s) {
    // A message must fit the send buffer as a whole; where they interleave, one of each stream.
    int size = opt.interleave ? 16 * SOCKET_BUFFER : SOCKET_BUFFER, on = 1;
    set(s, SOL_SOCKET, SO_SNDBUF, &size, sizeof size, "SO_SNDBUF");
    set(s, SOL_SOCKET, SO_RCVBUF, &size, sizeof size, "SO_RCVBUF");
    set(s, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on, "SCTP_RECVRCVINFO");
    set(s, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on, "SCTP_NODELAY");
    if (opt.interleave) {
        int parts_of_several = 2;
        struct sctp_assoc_value offered = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = 1}, turns = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = SCTP_SS_ROUND_ROBIN};
        set(s, IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, &parts_of_several, sizeof parts_of_several, "SCTP_FRAGMENT_INTERLEAVE");
        set(s, IPPROTO_SCTP, SCTP_INTERLEAVING_SUPPORTED, &offered, sizeof offered, "SCTP_INTERLEAVING_SUPPORTED");
        set(s, IPPROTO_SCTP, SCTP_PLUGGABLE_SS, &turns, sizeof turns, "SCTP_PLUGGABLE_SS");
    }
    if (opt.reset_every) {
        struct sctp_assoc_value allowed = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_RESET_ASSOC_REQ | SCTP_ENABLE_CHANGE_ASSOC_REQ};
        set(s, IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, &allowed, sizeof allowed, "SCTP_ENABLE_STREAM_RESET");
    }
    authenticate(s);
    if (opt.adaptation) {
        struct sctp_setadaptation one = {.ssb_adaptation_ind = opt.adaptation};
        set(s, IPPROTO_SCTP, SCTP_ADAPTATION_LAYER, &one, sizeof one, "SCTP_ADAPTATION_LAYER");
    }
    struct sctp_initmsg init = {.sinit_num_ostreams = (uint16_t)opt.streams, .sinit_max_instreams = (uint16_t)opt.streams};
    set(s, IPPROTO_SCTP, SCTP_INITMSG, &init, sizeof init, "SCTP_INITMSG");
    // Without a fixed MTU the loopback device's would be used, and pion reads at most 8192 bytes of a datagram.
    struct sctp_paddrparams path = {.spp_assoc_id = SCTP_FUTURE_ASSOC, .spp_flags = SPP_PMTUD_DISABLE, .spp_pathmtu = opt.mtu};
    set(s, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &path, sizeof path, "SCTP_PEER_ADDR_PARAMS");
    static const uint16_t events[] = {SCTP_ASSOC_CHANGE, SCTP_SHUTDOWN_EVENT, SCTP_REMOTE_ERROR, SCTP_SEND_FAILED_EVENT, SCTP_PARTIAL_DELIVERY_EVENT, SCTP_AUTHENTICATION_EVENT, SCTP_ADAPTATION_INDICATION};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct sctp_event event = {.se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = events[i], .se_on = 1};
        set(s, IPPROTO_SCTP, SCTP_EVENT, &event, sizeof event, "SCTP_EVENT");
    }
    struct sockaddr_in local[MAX_LOCALS] = {loopback(SCTP_PORT)};
    for (int i = 0; i < opt.locals; i++) {
        local[i] = loopback(SCTP_PORT);
        local[i].sin_addr = opt.local[i];
    }
    if (opt.locals == 0 && usrsctp_bind(s, (struct sockaddr *)local, sizeof *local) < 0) fail("bind: %s", strerror(errno));
    if (opt.locals > 0 && usrsctp_bindx(s, (struct sockaddr *)local, opt.locals, SCTP_BINDX_ADD_ADDR) < 0) fail("bindx: %s", strerror(errno));
}

static struct socket *set_up(void) {
    unsigned *own = opt.listen ? &opt.udp_port : &opt.local_udp_port;
    if (*own == 0) *own = free_udp_port();
    require_free(*own);
    usrsctp_init((uint16_t)*own, NULL, debug_line);
    // Where it runs as root usrsctp also opens a raw SCTP socket: it must not ABORT what belongs to other programs.
    usrsctp_sysctl_set_sctp_blackhole(2);
    if (opt.fast_failover) {
        // Milliseconds all. The threshold of RFC 7829: potentially failed after the first error.
        usrsctp_sysctl_set_sctp_rto_initial_default(500);
        usrsctp_sysctl_set_sctp_rto_min_default(200);
        usrsctp_sysctl_set_sctp_rto_max_default(2000);
        usrsctp_sysctl_set_sctp_heartbeat_interval_default(500);
        usrsctp_sysctl_set_sctp_delayed_sack_time_default(20);
        usrsctp_sysctl_set_sctp_path_pf_threshold(0);
    }
    if (opt.nr_sack) usrsctp_sysctl_set_sctp_nrsack_enable(1);
    usrsctp_sysctl_set_sctp_cmt_on_off(opt.cmt);
    usrsctp_sysctl_set_sctp_cmt_use_dac(opt.dac);
    usrsctp_sysctl_set_sctp_sendspace(SOCKET_BUFFER);
    usrsctp_sysctl_set_sctp_recvspace(SOCKET_BUFFER);
    struct socket *s = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (!s) fail("socket: %s", strerror(errno));
    configure(s);
    if (opt.listen) {
        if (usrsctp_listen(s, 1) < 0) fail("listen: %s", strerror(errno));
        fprintf(stderr, "ready udp-port=%u\n", *own);
        struct socket *accepted = usrsctp_accept(s, NULL, NULL);
        if (!accepted) fail("accept: %s", strerror(errno));
        return accepted;
    }
    struct sctp_udpencaps encaps = {.sue_assoc_id = SCTP_FUTURE_ASSOC, .sue_address.ss_family = AF_INET, .sue_port = htons((uint16_t)opt.udp_port)};
    set(s, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encaps, sizeof encaps, "SCTP_REMOTE_UDP_ENCAPS_PORT");
    struct sockaddr_in remote = loopback(SCTP_PORT);
    if (opt.remote.s_addr) remote.sin_addr = opt.remote;
    if (usrsctp_connect(s, (struct sockaddr *)&remote, sizeof remote) < 0) fail("connect: %s", strerror(errno));
    return s;
}

static uint64_t number(const char *name, const char *text, uint64_t low, uint64_t high) {
    char *end = NULL;
    errno = 0;
    uint64_t v = text ? strtoull(text, &end, 0) : 0;
    if (!text || errno || end == text || *end || *text == '-' || v < low || v > high) usage_error("%s takes a number from %llu to %llu", name, (unsigned long long)low, (unsigned long long)high);
    return v;
}

static struct in_addr address(const char *name, const char *text) {
    struct in_addr a;
    if (!text || inet_pton(AF_INET, text, &a) != 1) usage_error("%s takes an IPv4 address", name);
    return a;
}

// Reads numbers with commas between them.
static int numbers(const char *name, char *text, uint16_t *out) {
    int count = 0;
    for (char *one = strtok(text, ","); one; one = strtok(NULL, ",")) {
        if (count == MAX_AUTH) usage_error("%s: at most %d", name, MAX_AUTH);
        out[count++] = (uint16_t)number(name, one, 0, 65535);
    }
    if (!count) usage_error("%s takes numbers with commas between them", name);
    return count;
}

// Reads MESSAGES:ADDRESS.
static uint64_t change(const char *name, char *text, struct in_addr *out) {
    char *colon = text ? strchr(text, ':') : NULL;
    if (!colon) usage_error("%s takes MESSAGES:ADDRESS", name);
    *colon = 0;
    *out = address(name, colon + 1);
    return number(name, text, 1, 0xffffff);
}

static void read_key(const char *name, char *text) {
    char *colon = text ? strchr(text, ':') : NULL;
    if (!colon || opt.auth_keys == MAX_KEYS) usage_error("%s takes NUMBER:SECRET, at most %d times", name, MAX_KEYS);
    *colon = 0;
    opt.auth_key[opt.auth_keys].number = (uint16_t)number(name, text, 0, 65535);
    opt.auth_key[opt.auth_keys++].secret = colon + 1;
}

static void read_options(int n, char **v) {
    bool expect_given = false, shutdown_given = false;
    if (n < 2 || (strcmp(v[1], "listen") && strcmp(v[1], "connect"))) usage_error("usage: usrsctp-peer listen|connect --udp-port P [options], see interop/README.md");
    opt.listen = !strcmp(v[1], "listen");
    for (int i = 2; i < n; i++) {
        const char *k = v[i];
        if (!strcmp(k, "--send")) { opt.send = true; continue; }
        if (!strcmp(k, "--no-send")) { opt.send = false; continue; }
        if (!strcmp(k, "--log")) { opt.log = true; continue; }
        if (!strcmp(k, "--nr-sack")) { opt.nr_sack = true; continue; }
        if (!strcmp(k, "--interleave")) { opt.interleave = true; continue; }
        if (!strcmp(k, "--large")) { opt.large = true; continue; }
        if (!strcmp(k, "--dac")) { opt.dac = true; continue; }
        if (!strcmp(k, "--fast-failover")) { opt.fast_failover = true; continue; }
        char *x = i + 1 < n ? v[++i] : NULL;
        if (!strcmp(k, "--udp-port")) opt.udp_port = (unsigned)number(k, x, 0, 65535);
        else if (!strcmp(k, "--local-udp-port")) opt.local_udp_port = (unsigned)number(k, x, 0, 65535);
        else if (!strcmp(k, "--remote")) opt.remote = address(k, x);
        else if (!strcmp(k, "--local")) {
            if (opt.locals == MAX_LOCALS) usage_error("--local: at most %d", MAX_LOCALS);
            opt.local[opt.locals++] = address(k, x);
        }
        else if (!strcmp(k, "--messages")) opt.messages = number(k, x, 0, 0xffffff);
        else if (!strcmp(k, "--expect")) { opt.expect = number(k, x, 0, 0xffffff); expect_given = true; }
        else if (!strcmp(k, "--seed")) opt.seed = number(k, x, 0, UINT64_MAX);
        else if (!strcmp(k, "--streams")) opt.streams = (unsigned)number(k, x, 1, MAX_STREAMS);
        else if (!strcmp(k, "--max-size")) opt.max_size = (uint32_t)number(k, x, 1, MAX_MESSAGE);
        else if (!strcmp(k, "--unordered-every")) opt.unordered_every = (unsigned)number(k, x, 0, 1 << 24);
        else if (!strcmp(k, "--timeout")) opt.timeout_s = (unsigned)number(k, x, 1, 86400);
        else if (!strcmp(k, "--partial")) opt.partial_ms = (unsigned)number(k, x, 0, 60000);
        else if (!strcmp(k, "--reset-every")) opt.reset_every = (unsigned)number(k, x, 0, 1 << 24);
        else if (!strcmp(k, "--auth-chunks") && x) opt.auth_chunks = numbers(k, x, opt.auth_chunk);
        else if (!strcmp(k, "--auth-hmacs") && x) opt.auth_hmacs = numbers(k, x, opt.auth_hmac);
        else if (!strcmp(k, "--auth-key")) read_key(k, x);
        else if (!strcmp(k, "--next-key-after")) opt.next_key_after = number(k, x, 1, 0xffffff);
        else if (!strcmp(k, "--adaptation")) opt.adaptation = (uint32_t)number(k, x, 1, UINT32_MAX);
        else if (!strcmp(k, "--add")) opt.add_after = change(k, x, &opt.added);
        else if (!strcmp(k, "--ask-primary")) opt.primary_after = change(k, x, &opt.primary);
        else if (!strcmp(k, "--remove")) opt.remove_after = change(k, x, &opt.removed);
        else if (!strcmp(k, "--cmt")) opt.cmt = (unsigned)number(k, x, 0, 4);
        else if (!strcmp(k, "--linger")) opt.linger_s = (unsigned)number(k, x, 0, 3600);
        else if (!strcmp(k, "--mtu")) opt.mtu = (unsigned)number(k, x, 576, 8192);
        else if (!strcmp(k, "--loss")) { if (number(k, x, 0, 1000)) usage_error("--loss: usrsctp owns its UDP socket; put the loss in between, or on the other side"); }
        else if (!strcmp(k, "--shutdown") && x && (!strcmp(x, "first") || !strcmp(x, "second"))) { opt.shutdown_first = !strcmp(x, "first"); shutdown_given = true; }
        else usage_error("unknown option, or no value: %s", k);
    }
    if (!opt.listen && !opt.udp_port) usage_error("connect needs --udp-port, the remote's");
    if (opt.next_key_after && opt.auth_keys < 2) usage_error("--next-key-after needs two keys");
    if (!expect_given) opt.expect = opt.messages;
    if (!shutdown_given) opt.shutdown_first = !opt.listen;
}

int main(int n, char **v) {
    clock_gettime(CLOCK_MONOTONIC, &started);
    read_options(n, v);
    // Nothing but the JSON line reaches standard output, whatever the library prints.
    json_fd = dup(STDOUT_FILENO);
    if (json_fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 2;
    if (!opt.log) {
        int null = open("/dev/null", O_WRONLY);
        if (null < 0 || dup2(null, STDOUT_FILENO) < 0) return 2;
    }
    seen = calloc(opt.expect + 1, 1);
    expected = malloc(opt.max_size);
    for (size_t i = 0; i < MAX_STREAMS; i++) last_ordered[i] = -1;
    for (uint64_t i = 0; i < opt.expect; i++) reliable_missing += !persistence(describe(!opt.listen, i).stream);
    pthread_t dog, sender;
    if (!seen || !expected || pthread_create(&dog, NULL, watchdog, NULL)) return 2;

    struct socket *s = set_up();
    if (pthread_create(&sender, NULL, send_all, s)) fail("no thread");
    receive_all(s);
    pthread_join(sender, NULL);
    usrsctp_close(s);
    // A lost SHUTDOWN COMPLETE is repeated only while somebody answers the SHUTDOWN ACK (RFC 9260 §8.4).
    sleep(opt.linger_s);
    finish(NULL);
}
