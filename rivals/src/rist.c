// RIST by librist, main profile: the functions that foreign.rs calls. A process has one context.
#include <librist/librist.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct rist_ctx *context;

static int failed(const char *what) {
    fprintf(stderr, "rist: %s failed\n", what);
    return -1;
}

// Adds the peer with the given buffer (both sides must have the same) and starts.
static int start(const char *listens, const char *ip, int port, int buffer) {
    char url[200];
    snprintf(url, sizeof url, "rist://%s%s:%d?buffer=%d&rtt-min=5", listens, ip, port, buffer);
    struct rist_peer_config *config = NULL;
    struct rist_peer *peer = NULL;
    if (rist_parse_address2(url, &config)) return failed("the address");
    int refused = rist_peer_create(context, &peer, config);
    rist_peer_config_free2(&config);
    if (refused) return failed("the peer");
    return rist_start(context) ? failed("the start") : 0;
}

static struct rist_logging_settings *logging(void) {
    struct rist_logging_settings *settings = NULL;
    rist_logging_set(&settings, RIST_LOG_ERROR, NULL, NULL, NULL, stderr);
    return settings;
}

int rival_rist_accept(const char *ip, int port, int buffer, int is_file) {
    (void)is_file;
    if (rist_receiver_create(&context, RIST_PROFILE_MAIN, logging())) return failed("the receiver");
    return start("@", ip, port, buffer);
}

int rival_rist_connect(const char *ip, int port, int buffer, int is_file) {
    (void)is_file;
    if (rist_sender_create(&context, RIST_PROFILE_MAIN, 0, logging())) return failed("the sender");
    return start("", ip, port, buffer);
}

int rival_rist_send(int handle, const void *bytes, int length) {
    (void)handle;
    struct rist_data_block block;
    memset(&block, 0, sizeof block);
    block.payload = bytes;
    block.payload_len = (size_t)length;
    return rist_sender_data_write(context, &block);
}

int rival_rist_receive(int handle, void *bytes, int most) {
    (void)handle;
    for (;;) {
        struct rist_data_block *block = NULL;
        int waiting = rist_receiver_data_read2(context, &block, 100);
        if (waiting < 0) return failed("reading");
        if (waiting == 0 || !block) continue;
        int length = block->payload_len < (size_t)most ? (int)block->payload_len : most;
        memcpy(bytes, block->payload, (size_t)length);
        rist_receiver_data_block_free2(&block);
        return length;
    }
}
