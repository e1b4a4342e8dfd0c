/* LD_PRELOAD: times the inferences of a C or C++ program that uses ONNX Runtime, or the C API of TensorFlow Lite or
 * LiteRT where its library exports that, linked or loaded with dlopen(3).
 *
 * `OrtGetApiBase` is what every such program calls; the table of functions behind it has had the same order since its
 * first version (onnxruntime_c_api.h: "this struct is append-only"). The entries for running and loading are replaced
 * in that table, which all threads and libraries of the process share.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include "edgetop_probe.h"

/* Places in struct OrtApi, onnxruntime_c_api.h, and the API version since which each is there. */
enum { CREATE_SESSION = 7, CREATE_SESSION_FROM_ARRAY = 8, RUN = 9, RUN_WITH_BINDING = 133, RUN_ASYNC = 260 };
enum { BINDING_SINCE = 4, ASYNC_SINCE = 16, SESSIONS = 64 };

typedef void *Status; /* NULL: it went well */
struct Base {
    void **(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
};
typedef void (*AsyncDone)(void *user, void **outputs, size_t count, Status status);

static Status (*real_create)(void *, const char *, void *, void **);
static Status (*real_create_from)(void *, const void *, size_t, void *, void **);
static Status (*real_run)(void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **);
static Status (*real_bound)(void *, void *, void *);
static Status (*real_async)(void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t,
                            void **, AsyncDone, void *);
static char ort[48]; /* the runtime, a tab and its version */
static struct { void *session; uint16_t name; int called; } sessions[SESSIONS];
static pthread_mutex_t sessions_lock = PTHREAD_MUTEX_INITIALIZER;

/* Under a session's address its name; `path` is NULL but for one that was just made. */
static uint16_t session_name(struct edgetop_ring *ring, const char *runtime, void *session, const char *path,
                             uint32_t *flags) {
    char text[4200], absolute[4096];
    int place, free_place = -1;
    uint16_t name;
    for (place = 0; place < SESSIONS && !path; place++)
        if (__atomic_load_n(&sessions[place].session, __ATOMIC_ACQUIRE) == session) {
            if (flags && !__atomic_exchange_n(&sessions[place].called, 1, __ATOMIC_RELAXED))
                *flags |= EDGETOP_FIRST;
            return sessions[place].name;
        }
    if (!path || !*path || !realpath(path, absolute))
        snprintf(absolute, sizeof absolute, "%s", path ? path : "");
    pthread_mutex_lock(&sessions_lock);
    int others = 0;
    for (place = 0; place < SESSIONS; place++) {
        if (sessions[place].session == session || (!sessions[place].session && free_place < 0))
            free_place = place;
        others += sessions[place].session != NULL && sessions[place].session != session;
    }
    snprintf(text, sizeof text, "%s\t\t%s", runtime, absolute);
    name = edgetop_name(ring, text, NULL);
    for (place = 0; place < SESSIONS; place++)
        if (sessions[place].session && sessions[place].session != session && sessions[place].name == name) {
            snprintf(text, sizeof text, "%s\t\t%s#%d", runtime, absolute, others + 1);
            name = edgetop_name(ring, text, NULL);
            break;
        }
    if (free_place >= 0) {
        sessions[free_place].name = name;
        sessions[free_place].called = flags != NULL;
        __atomic_store_n(&sessions[free_place].session, session, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&sessions_lock);
    if (flags)
        *flags |= EDGETOP_FIRST;
    return name;
}

static void ran_on(const char *runtime, const char *path, void *session, int64_t start, int64_t end, int failed) {
    struct edgetop_ring *ring = edgetop_ring();
    if (ring) {
        uint32_t flags = 0;
        uint16_t name = session_name(ring, runtime, session, path, &flags);
        edgetop_write(ring, start, end, name, EDGETOP_CALL, !failed, flags, 0);
    }
}

static void ran(void *session, int64_t start, int64_t end, Status status) {
    ran_on(ort, NULL, session, start, end, status != NULL);
}

static void loaded(void *session, const char *path, int64_t start) {
    struct edgetop_ring *ring = edgetop_ring();
    if (ring && session)
        edgetop_write(ring, start, edgetop_now(), session_name(ring, ort, session, path, NULL), EDGETOP_LOAD, 1, 0, 0);
}

static Status timed_create(void *env, const char *path, void *options, void **session) {
    int64_t start = edgetop_now();
    Status status = real_create(env, path, options, session);
    if (!status)
        loaded(*session, path ? path : "", start);
    return status;
}

static Status timed_create_from(void *env, const void *data, size_t size, void *options, void **session) {
    int64_t start = edgetop_now();
    Status status = real_create_from(env, data, size, options, session);
    if (!status)
        loaded(*session, "", start);
    return status;
}

static Status timed_run(void *session, void *options, const char *const *in, void *const *inputs, size_t n,
                        const char *const *out, size_t m, void **outputs) {
    int64_t start = edgetop_now();
    Status status = real_run(session, options, in, inputs, n, out, m, outputs);
    ran(session, start, edgetop_now(), status);
    return status;
}

static Status timed_bound(void *session, void *options, void *binding) {
    int64_t start = edgetop_now();
    Status status = real_bound(session, options, binding);
    ran(session, start, edgetop_now(), status);
    return status;
}

struct Async {
    AsyncDone done;
    void *user, *session;
    int64_t start;
};

static void async_done(void *user, void **outputs, size_t count, Status status) {
    struct Async call = *(struct Async *)user;
    ran(call.session, call.start, edgetop_now(), status);
    free(user);
    call.done(call.user, outputs, count, status);
}

static Status timed_async(void *session, void *options, const char *const *in, void *const *inputs, size_t n,
                          const char *const *out, size_t m, void **outputs, AsyncDone done, void *user) {
    struct Async *call = malloc(sizeof *call);
    Status status;
    if (!call)
        return real_async(session, options, in, inputs, n, out, m, outputs, done, user);
    *call = (struct Async){done, user, session, edgetop_now()};
    status = real_async(session, options, in, inputs, n, out, m, outputs, async_done, call);
    if (status) /* it never began */
        free(call);
    return status;
}

static void replace(void **table, int place, void *ours, void **real) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)&table[place] & ~(page - 1), end = (uintptr_t)(&table[place] + 1);
    if (table[place] == ours || mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE))
        return;
    *real = table[place];
    __atomic_store_n(&table[place], ours, __ATOMIC_RELEASE);
    mprotect((void *)begin, end - begin, PROT_READ);
}

static void patch(struct Base *base) {
    void **table = base ? base->GetApi(1) : NULL;
    if (!table || !edgetop_ring())
        return;
    const char *version = base->GetVersionString();
    snprintf(ort, sizeof ort, "onnxruntime\t%s", version);
    replace(table, CREATE_SESSION, (void *)timed_create, (void **)&real_create);
    replace(table, CREATE_SESSION_FROM_ARRAY, (void *)timed_create_from, (void **)&real_create_from);
    replace(table, RUN, (void *)timed_run, (void **)&real_run);
    int minor = strncmp(version, "1.", 2) ? 0 : atoi(version + 2); /* the API's version; asked of GetApi it would print */
    if (minor >= BINDING_SINCE)
        replace(table, RUN_WITH_BINDING, (void *)timed_bound, (void **)&real_bound);
    if (minor >= ASYNC_SINCE)
        replace(table, RUN_ASYNC, (void *)timed_async, (void **)&real_async);
}

typedef void *(*Dlsym)(void *, const char *);

static Dlsym real_dlsym(void) { /* by its version: by its name alone it would be the one below */
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5", "GLIBC_2.4", "GLIBC_2.27"};
    static Dlsym real;
    for (size_t i = 0; !real && i < sizeof versions / sizeof *versions; i++)
        real = (Dlsym)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    return real;
}

struct Base *OrtGetApiBase(void) { /* what a program calls that is linked with the runtime */
    struct Base *(*real)(void) = (struct Base *(*)(void))real_dlsym()(RTLD_NEXT, "OrtGetApiBase");
    struct Base *base = real ? real() : NULL;
    patch(base);
    return base;
}

/* The one model that is mapped into this process; "": none, or several. */
static const char *mapped_model(char *path, size_t size) {
    char line[4200], *found;
    FILE *maps = fopen("/proc/self/maps", "re");
    path[0] = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        line[strcspn(line, "\n")] = 0;
        found = strchr(line, '/');
        if (!found || strlen(found) < 7 || strcmp(found + strlen(found) - 7, ".tflite") || !strcmp(found, path))
            continue;
        if (path[0]) {
            path[0] = 0;
            break;
        }
        snprintf(path, size, "%s", found);
    }
    if (maps)
        fclose(maps);
    return path;
}

static int known(void *session) {
    for (int place = 0; place < SESSIONS; place++)
        if (__atomic_load_n(&sessions[place].session, __ATOMIC_ACQUIRE) == session)
            return 1;
    return 0;
}

static void ran_lite(const char *runtime, void *session, int64_t start, int failed) {
    char path[4096];
    int64_t end = edgetop_now();
    ran_on(runtime, known(session) ? NULL : mapped_model(path, sizeof path), session, start, end, failed);
}

static int (*real_invoke)(void *);
static int (*real_compiled)(void *, size_t, size_t, void *, size_t, void *);

int TfLiteInterpreterInvoke(void *interpreter) {
    int64_t start = edgetop_now();
    if (!real_invoke)
        *(void **)&real_invoke = real_dlsym()(RTLD_NEXT, "TfLiteInterpreterInvoke");
    int status = real_invoke(interpreter);
    ran_lite("tflite\t", interpreter, start, status);
    return status;
}

int LiteRtRunCompiledModel(void *model, size_t signature, size_t n, void *inputs, size_t m, void *outputs) {
    int64_t start = edgetop_now();
    if (!real_compiled)
        *(void **)&real_compiled = real_dlsym()(RTLD_NEXT, "LiteRtRunCompiledModel");
    int status = real_compiled(model, signature, n, inputs, m, outputs);
    ran_lite("litert\t", model, start, status);
    return status;
}

void *dlsym(void *handle, const char *name) { /* how a program finds it that loads the runtime itself */
    Dlsym real = real_dlsym();
    if (!strcmp(name, "OrtGetApiBase")) {
        struct Base *(*found)(void) = (struct Base *(*)(void))real(handle, name);
        if (found && found != OrtGetApiBase)
            patch(found());
        return (void *)found;
    }
    int is_compiled = !strcmp(name, "LiteRtRunCompiledModel");
    if (is_compiled || !strcmp(name, "TfLiteInterpreterInvoke")) {
        void *ours = is_compiled ? (void *)LiteRtRunCompiledModel : (void *)TfLiteInterpreterInvoke;
        void *found = real(handle, name);
        if (found == ours) /* asked for in all libraries */
            found = real(RTLD_NEXT, name);
        if (found)
            *(is_compiled ? (void **)&real_compiled : (void **)&real_invoke) = found;
        return found ? ours : NULL;
    }
    return real(handle, name); /* a jump and no call: dlsym(3) looks at who called it */
}

__attribute__((constructor)) static void begin(void) {
    edgetop_source = EDGETOP_BY_PRELOAD;
    if (!getenv("EDGETOP_TAP_CHILDREN")) /* programs that this one starts are none of edgetop's business */
        unsetenv("LD_PRELOAD");
}
