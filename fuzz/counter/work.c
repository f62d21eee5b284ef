/* Counts work for the target `work`: each edge of the control flow graph that is taken, and each 64 bytes that are moved.
 *
 * The target is built with -sanitizer-coverage-trace-pc, which calls the function below at every edge. The target reads the count
 * from the eight bytes of the memory file with this name (in /proc/self/fd), so that Rust code need not call into C. Without that
 * option no code calls the function, and this object is not linked. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t until_there_is_a_file;
static volatile uint64_t *counter = &until_there_is_a_file;

__attribute__((constructor)) static void open_counter(void) {
    int file = memfd_create("anabranch-work", 0);
    if (file < 0 || ftruncate(file, sizeof *counter) != 0) return;
    void *memory = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) counter = memory;
}

void __sanitizer_cov_trace_pc(void) { ++*counter; }

/* Replaces the C library's function, whose work would not be counted: shifting an array for each received byte is not free. */
void *memmove(void *to, const void *from, size_t len) {
    unsigned char *out = to;
    const unsigned char *in = from;
    uint64_t word;
    *counter += len / 64;
    if (out <= in || out >= in + len) {
        for (; len >= sizeof word; len -= sizeof word, in += sizeof word, out += sizeof word) {
            __builtin_memcpy(&word, in, sizeof word);
            __builtin_memcpy(out, &word, sizeof word);
        }
        while (len-- > 0) *out++ = *in++;
    } else {
        for (; len >= sizeof word; len -= sizeof word) {
            __builtin_memcpy(&word, in + len - sizeof word, sizeof word);
            __builtin_memcpy(out + len - sizeof word, &word, sizeof word);
        }
        for (; len > 0; --len) out[len - 1] = in[len - 1];
    }
    return to;
}

void *memcpy(void *to, const void *from, size_t len) { return memmove(to, from, len); }
