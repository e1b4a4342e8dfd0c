/* Report inferences of a C or C++ program to edgetop, where `edgetop watch` started it; otherwise do nothing.
 *
 *     #include "edgetop_probe.h"
 *
 *     int64_t start = edgetop_now();
 *     run_model(...);
 *     edgetop_put("detector", start, edgetop_now(), 1);
 *
 * and of a whole frame, where 0 stands for "the frame that this thread works on":
 *
 *     edgetop_deadline(33000000);
 *     edgetop_stage("preprocess", start, edgetop_now(), 0);
 *     edgetop_drop();
 *
 * C99 with GCC's or Clang's atomics and POSIX; no library to link. It starts no thread, sets no signal handler and
 * prints nothing. The layout of what it writes is described by `edgetop help tap`; `edgetop_probe.py` writes the same.
 */
#ifndef EDGETOP_PROBE_H
#define EDGETOP_PROBE_H

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define EDGETOP_VERSION 1u
#define EDGETOP_SLOTS 32768u
#define EDGETOP_NAMES 64u
#define EDGETOP_CALL 1
#define EDGETOP_LOAD 2
#define EDGETOP_STAGE 3
#define EDGETOP_DROP 4
#define EDGETOP_DEADLINE 5
#define EDGETOP_SIZE 7
#define EDGETOP_TOKENS 9
#define EDGETOP_FIRST 1u
#define EDGETOP_RESHAPED 2u
#define EDGETOP_BY_PRELOAD 2u
#define EDGETOP_BY_PROBE 3u

struct edgetop_slot {
    uint64_t sequence;
    int64_t start_ns, end_ns;
    uint64_t thread;
    uint16_t name;
    uint8_t kind, ok;
    uint32_t flags, cpu_us, number;
};

struct edgetop_name {
    uint16_t length;
    char text[254];
};

struct edgetop_ring {
    char magic[8];
    uint32_t version, header_bytes, slot_bytes, slots, pid, source;
    uint64_t created_ns;
    uint32_t pad[2], cost_ns, name_count, unused[2];
    struct edgetop_name names[EDGETOP_NAMES];
    char rest[20480 - 64 - 64 * 256];
    struct edgetop_slot slot[EDGETOP_SLOTS];
};

static struct edgetop_ring *edgetop_the_ring;
static uint64_t edgetop_next;
static uint32_t edgetop_source = EDGETOP_BY_PROBE;
static pthread_mutex_t edgetop_lock = PTHREAD_MUTEX_INITIALIZER;
static int edgetop_tried;
static const char *edgetop_folder; /* where the rings are; NULL: EDGETOP_TAP has it */

static inline int64_t edgetop_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static struct edgetop_ring *edgetop_parents; /* the ring of the process that forked this one */

static void edgetop_forget(void) { /* a forked child gets a ring of its own; another thread may have held the lock */
    pthread_mutex_init(&edgetop_lock, NULL);
    if (edgetop_the_ring)
        edgetop_parents = edgetop_the_ring;
    edgetop_the_ring = NULL;
    edgetop_tried = 0;
    edgetop_next = 0;
}

/* Remember the folder for rings, whatever becomes of the environment. */
static inline void edgetop_remember(void) {
    const char *folder = getenv("EDGETOP_TAP");
    if (folder && *folder)
        edgetop_folder = strdup(folder);
}

/* Whether somebody watches. */
static inline int edgetop_is_watched(void) {
    return edgetop_folder || getenv("EDGETOP_TAP");
}

static void edgetop_open(void) {
    static int registered;
    char path[4096];
    const char *folder = edgetop_folder ? edgetop_folder : getenv("EDGETOP_TAP");
    int length, file;
    void *made = MAP_FAILED;
    struct rlimit largest;
    if (!folder || !*folder)
        return;
    if (!getrlimit(RLIMIT_FSIZE, &largest) && largest.rlim_cur < sizeof(struct edgetop_ring)) /* it would be a signal */
        return;
    length = snprintf(path, sizeof path, "%s/%ld-%llx.tap", folder, (long)getpid(), (long long)edgetop_now());
    if (length < 0 || length >= (int)sizeof path)
        return;
    file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return;
    if (!posix_fallocate(file, 0, sizeof(struct edgetop_ring)))
        made = mmap(NULL, sizeof(struct edgetop_ring), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (made == MAP_FAILED) {
        unlink(path);
        return;
    }
    struct edgetop_ring *ring = (struct edgetop_ring *)made;
    ring->version = EDGETOP_VERSION;
    ring->header_bytes = 20480;
    ring->slot_bytes = sizeof(struct edgetop_slot);
    ring->slots = EDGETOP_SLOTS;
    ring->pid = (uint32_t)getpid();
    ring->source = edgetop_source;
    ring->created_ns = (uint64_t)edgetop_now();
    if (edgetop_parents) { /* names keep their numbers */
        ring->name_count = __atomic_load_n(&edgetop_parents->name_count, __ATOMIC_ACQUIRE);
        memcpy(ring->names, edgetop_parents->names, sizeof ring->names);
        munmap(edgetop_parents, sizeof *edgetop_parents);
        edgetop_parents = NULL;
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(ring->magic, "EDGETAP1", 8);
    if (!registered++)
        pthread_atfork(NULL, NULL, edgetop_forget);
    __atomic_store_n(&edgetop_the_ring, ring, __ATOMIC_RELEASE);
}

/* The ring of this process; NULL where nobody watches. */
static struct edgetop_ring *edgetop_ring(void) {
    struct edgetop_ring *ring = __atomic_load_n(&edgetop_the_ring, __ATOMIC_ACQUIRE);
    if (ring || __atomic_load_n(&edgetop_tried, __ATOMIC_ACQUIRE))
        return ring;
    pthread_mutex_lock(&edgetop_lock);
    if (!edgetop_tried) {
        edgetop_open();
        __atomic_store_n(&edgetop_tried, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&edgetop_lock);
    return edgetop_the_ring;
}

/* The number of a name: of `runtime TAB version TAB providers TAB model`, all of which may be empty. */
static uint16_t edgetop_name(struct edgetop_ring *ring, const char *text, uint32_t *flags) {
    uint32_t number, count = __atomic_load_n(&ring->name_count, __ATOMIC_ACQUIRE);
    size_t length = strlen(text);
    if (length > sizeof ring->names[0].text) {
        text += length - sizeof ring->names[0].text;
        length = sizeof ring->names[0].text;
    }
    for (number = 0; number < count; number++)
        if (ring->names[number].length == length && !memcmp(ring->names[number].text, text, length))
            return (uint16_t)number;
    pthread_mutex_lock(&edgetop_lock);
    for (; number < ring->name_count; number++) /* another thread was faster */
        if (ring->names[number].length == length && !memcmp(ring->names[number].text, text, length))
            break;
    if (number >= EDGETOP_NAMES - 1) { /* the last name is that of all others */
        number = EDGETOP_NAMES - 1;
        text = "\t\t\tothers";
        length = strlen(text);
    }
    if (number >= ring->name_count) {
        memcpy(ring->names[number].text, text, length);
        ring->names[number].length = (uint16_t)length;
        __atomic_store_n(&ring->name_count, number + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&edgetop_lock);
    if (flags)
        *flags |= EDGETOP_FIRST;
    return (uint16_t)number;
}

/* Write one slot. Returns its number. */
static uint64_t edgetop_fill(struct edgetop_ring *ring, int64_t start_ns, int64_t end_ns, uint16_t name, int kind, int ok,
                            uint32_t flags, uint32_t cpu_us, uint32_t of_frame) {
    uint64_t sequence = __atomic_fetch_add(&edgetop_next, 1, __ATOMIC_RELAXED);
    struct edgetop_slot *slot = &ring->slot[sequence % EDGETOP_SLOTS];
    __atomic_store_n(&slot->sequence, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    slot->start_ns = start_ns;
    slot->end_ns = end_ns;
    slot->thread = (uint64_t)(uintptr_t)pthread_self();
    slot->name = name;
    slot->kind = (uint8_t)kind;
    slot->ok = (uint8_t)ok;
    slot->flags = flags;
    slot->cpu_us = cpu_us;
    slot->number = of_frame;
    __atomic_store_n(&slot->sequence, sequence + 1, __ATOMIC_RELEASE);
    return sequence;
}

/* Write one call. Returns its number. */
static inline uint64_t edgetop_write(struct edgetop_ring *ring, int64_t start_ns, int64_t end_ns, uint16_t name, int kind,
                                     int ok, uint32_t flags, uint32_t of_frame) {
    return edgetop_fill(ring, start_ns, end_ns, name, kind, ok, flags, 0, of_frame);
}

/* State what it cost the program to have one call timed, as it was measured just now: the median of the last nine, since
 * the program may lose its CPU between two looks at the clock. */
static inline void edgetop_cost(struct edgetop_ring *ring, int64_t cost_ns) {
    static uint32_t last[9], count;
    uint32_t sorted[9], known, i, j;
    if (cost_ns < 0 || cost_ns > UINT32_MAX)
        return;
    known = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    last[known % 9] = (uint32_t)cost_ns;
    known = known < 9 ? known : 9;
    for (i = 0; i < known; i++) {
        uint32_t one = last[known < 9 ? i + 1 : i];
        for (j = i; j && sorted[j - 1] > one; j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = one;
    }
    ring->cost_ns = sorted[known / 2];
}

static inline void edgetop_report(const char *name, int kind, int64_t start_ns, int64_t end_ns, int ok, uint32_t frame) {
    struct edgetop_ring *ring = edgetop_ring();
    if (ring) {
        char text[256];
        uint32_t flags = 0;
        uint16_t number;
        snprintf(text, sizeof text, "\t\t\t%s", name);
        number = edgetop_name(ring, text, &flags);
        edgetop_write(ring, start_ns, end_ns, number, kind, ok, flags, frame);
    }
}

/* Report one inference of `name`; `ok` is 0 where it failed. */
static inline void edgetop_put(const char *name, int64_t start_ns, int64_t end_ns, int ok) {
    edgetop_report(name, EDGETOP_CALL, start_ns, end_ns, ok, 0);
}

/* The same as part of a frame whose stages are those of several threads; `frame` is a number from 1 on. */
static inline void edgetop_put_frame(const char *name, int64_t start_ns, int64_t end_ns, int ok, uint32_t frame) {
    edgetop_report(name, EDGETOP_CALL, start_ns, end_ns, ok, frame);
}

/* Report a stage of a frame, such as "capture" or "preprocess"; `frame` is 0 where one thread does all of a frame. */
static inline void edgetop_stage(const char *name, int64_t start_ns, int64_t end_ns, uint32_t frame) {
    edgetop_report(name, EDGETOP_STAGE, start_ns, end_ns, 1, frame);
}

/* Count a frame that the program skips. */
static inline void edgetop_drop(void) {
    int64_t now = edgetop_now();
    edgetop_report("", EDGETOP_DROP, now, now, 1, 0);
}

/* Declare how long a frame may take, from the begin of its first stage to the end of its last. */
static inline void edgetop_deadline(int64_t limit_ns) {
    int64_t now = edgetop_now();
    edgetop_report("", EDGETOP_DEADLINE, now - limit_ns, now, 1, 0);
}

#endif
