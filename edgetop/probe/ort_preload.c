/* LD_PRELOAD: times the inferences of a C or C++ program that uses ONNX Runtime, OpenVINO, ncnn, llama.cpp, or the C API
 * of TensorFlow Lite or LiteRT where its library exports that; linked, loaded with dlopen(3), or by a plug-in that keeps
 * it to itself.
 *
 * `OrtGetApiBase` is what every program of ONNX Runtime calls; the table of functions behind it has had the same order
 * since its first version (onnxruntime_c_api.h: "this struct is append-only"). The entries for running, loading and
 * releasing are replaced in that table, which all threads and libraries of the process share. A process may have
 * several runtimes, each with a table.
 *
 * The program never notices: what is not as expected stays as it is, nothing is printed, and no function is offered
 * that the program would not have found alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sys/syscall.h>
#include "edgetop_probe.h"

/* Places in struct OrtApi, onnxruntime_c_api.h, and the API version since which each is there. */
enum { CREATE_SESSION = 7, CREATE_SESSION_FROM_ARRAY = 8, RUN = 9, RELEASE_SESSION = 95 };
enum { RUN_WITH_BINDING = 133, RUN_ASYNC = 260 };
enum { BINDING_SINCE = 4, ASYNC_SINCE = 16 };
enum { RUNTIMES = 4, CALLERS = 64, SESSIONS = 4096, PROBES = 64, COST_EACH = 16, LONGEST_PATH = 4096 };

typedef void *Status; /* NULL: it went well */
struct Base {
    void **(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
};
typedef void (*AsyncDone)(void *user, void **outputs, size_t count, Status status);
typedef Status (*Create)(void *, const char *, void *, void **);
typedef Status (*CreateFrom)(void *, const void *, size_t, void *, void **);
typedef Status (*Run)(void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **);
typedef Status (*Bound)(void *, void *, void *);
typedef Status (*Async)(void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **,
                        AsyncDone, void *);
typedef void (*Release)(void *);
typedef int (*Invoke)(void *);
typedef int (*Compiled)(void *, size_t, size_t, void *, size_t, void *);
typedef void *(*Dlsym)(void *, const char *);

/* ---- Sessions: the name of each, by its address. Looked up without a lock, in one cache line. ---- */

struct Session {
    void *address; /* NULL: never used; &sessions: released */
    uint16_t name;
    uint16_t is_request; /* of a session, whose name it has */
    uint32_t size;       /* of the inputs of its last call, in elements; 0: not reported */
    int64_t started; /* begin of what has not ended yet; 0: nothing */
};
static struct Session sessions[SESSIONS];
static uint8_t is_called[EDGETOP_NAMES]; /* whether a session had its first call, by its name */
static pthread_mutex_t sessions_lock = PTHREAD_MUTEX_INITIALIZER;

static struct Session *session_at(void *address) {
    size_t at = ((uintptr_t)address >> 4) * 0x9E3779B97F4A7C15ull >> 52;
    for (int tried = 0; tried < PROBES; tried++, at = (at + 1) % SESSIONS) {
        void *found = __atomic_load_n(&sessions[at].address, __ATOMIC_ACQUIRE);
        if (found == address)
            return &sessions[at];
        if (!found)
            break;
    }
    return NULL;
}

static void session_released(void *address) {
    struct Session *session = session_at(address);
    if (session)
        __atomic_store_n(&session->address, (void *)sessions, __ATOMIC_RELEASE);
}

/* Whether a session that lives has this name. */
static int is_name_used(uint16_t name, void *but) {
    for (int at = 0; at < SESSIONS; at++) {
        void *address = sessions[at].address;
        if (address && address != (void *)sessions && address != but && !sessions[at].is_request &&
            sessions[at].name == name)
            return 1;
    }
    return 0;
}

/* Remember the name of what is at an address. The lock is held. */
static void session_stored(void *address, uint16_t name, int is_request) {
    struct Session *place = NULL;
    size_t at = ((uintptr_t)address >> 4) * 0x9E3779B97F4A7C15ull >> 52;
    for (int tried = 0; tried < PROBES; tried++, at = (at + 1) % SESSIONS) {
        void *found = sessions[at].address;
        if (found == address) {
            place = &sessions[at];
            break;
        }
        if (!place && (!found || found == (void *)sessions))
            place = &sessions[at];
        if (!found)
            break;
    }
    if (place) {
        place->name = name;
        place->is_request = (uint16_t)is_request;
        place->size = 0;
        place->started = 0;
        __atomic_store_n(&place->address, address, __ATOMIC_RELEASE);
    }
}

/* Remember a session that was made or is met the first time. Sessions of the same model are `#2` and so on. Returns
 * its name; sessions that do not fit share that of the others. */
static uint16_t session_named(struct edgetop_ring *ring, const char *runtime, void *address, const char *path) {
    char text[LONGEST_PATH + 128], absolute[LONGEST_PATH];
    uint16_t name = EDGETOP_NAMES - 1;
    if (!path || !*path || !realpath(path, absolute))
        snprintf(absolute, sizeof absolute, "%s", path ? path : "");
    pthread_mutex_lock(&sessions_lock);
    for (int number = 1; number < (int)EDGETOP_NAMES; number++) {
        if (number == 1)
            snprintf(text, sizeof text, "%s\t\t%s", runtime, absolute);
        else
            snprintf(text, sizeof text, "%s\t\t%s#%d", runtime, absolute, number);
        name = edgetop_name(ring, text, NULL);
        if (name == EDGETOP_NAMES - 1 || !is_name_used(name, address))
            break;
    }
    session_stored(address, name, 0);
    is_called[name] = 0;
    pthread_mutex_unlock(&sessions_lock);
    return name;
}

/* ---- Calls ---- */

/* Find the only mapped file whose name has this ending. It is asked for only where a session is met the first time: the
 * file has thousands of lines. */
static void mapped_model(char *path, size_t size, const char *ending) {
    char line[LONGEST_PATH + 128], *found;
    size_t length = strlen(ending);
    FILE *maps = fopen("/proc/self/maps", "re");
    path[0] = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        line[strcspn(line, "\n")] = 0;
        found = strchr(line, '/');
        if (!found || strlen(found) < length || strcmp(found + strlen(found) - length, ending) || !strcmp(found, path))
            continue;
        if (path[0]) { /* several: it is not known which */
            path[0] = 0;
            break;
        }
        snprintf(path, size, "%.*s", (int)size - 1, found);
    }
    if (maps)
        fclose(maps);
}

/* Write a call of a session, with the size of its inputs where that has changed. `size` is in elements; 0: not known. */
static void call_written(struct edgetop_ring *ring, struct Session *session, uint16_t name, int64_t start, int64_t end,
                         int failed, uint32_t size) {
    static struct edgetop_ring *sized; /* the ring that has the sizes of the sessions: a forked child has a new one */
    uint32_t flags = 0;
    if (!is_called[name] && !__atomic_exchange_n(&is_called[name], 1, __ATOMIC_RELAXED))
        flags = EDGETOP_FIRST;
    if (size && __atomic_exchange_n(&sized, ring, __ATOMIC_RELAXED) != ring)
        for (int at = 0; at < SESSIONS; at++)
            if (sessions[at].size)
                sessions[at].size = 0;
    if (size && session && size != session->size) {
        flags |= session->size ? EDGETOP_RESHAPED : 0;
        session->size = size;
        edgetop_write(ring, start, end, name, EDGETOP_SIZE, 1, 0, size);
    }
    uint64_t number = edgetop_write(ring, start, end, name, EDGETOP_CALL, !failed, flags, 0);
    if (number % COST_EACH == COST_EACH - 1) /* what it costs this very program, at its own pace */
        edgetop_cost(ring, edgetop_now() - end);
}

/* Record a call. `ending` is how the name of a model's file ends that the runtime maps into memory, else NULL. */
static void called(const char *runtime, void *address, int64_t start, int64_t end, int failed, const char *ending) {
    struct edgetop_ring *ring = edgetop_ring();
    if (!ring)
        return;
    struct Session *session = session_at(address);
    uint16_t name = session ? session->name : 0;
    if (!session) {
        char path[LONGEST_PATH];
        path[0] = 0;
        if (ending)
            mapped_model(path, sizeof path, ending);
        name = session_named(ring, runtime, address, path);
    }
    call_written(ring, session, name, start, end, failed, 0);
}

/* ---- ONNX Runtime: for each runtime in the process the functions that were in its table ---- */

static struct Runtime {
    void **table; /* NULL: free */
    char name[48]; /* the runtime, a tab and its version */
    Create create;
    CreateFrom create_from;
    Run run;
    Bound bound;
    Async async;
    Release release;
} runtimes[RUNTIMES];

static void loaded(struct Runtime *runtime, void *session, const char *path, int64_t start) {
    struct edgetop_ring *ring = edgetop_ring();
    int64_t end = edgetop_now();
    if (ring && session)
        edgetop_write(ring, start, end, session_named(ring, runtime->name, session, path), EDGETOP_LOAD, 1, 0, 0);
}

struct AsyncCall {
    AsyncDone done;
    void *user, *session;
    int64_t start;
    struct Runtime *runtime;
};

static void async_done(void *user, void **outputs, size_t count, Status status) {
    struct AsyncCall call = *(struct AsyncCall *)user;
    free(user);
    called(call.runtime->name, call.session, call.start, edgetop_now(), status != NULL, NULL);
    if (call.done)
        call.done(call.user, outputs, count, status);
}

static Status started_async(struct Runtime *runtime, void *session, void *options, const char *const *in,
                            void *const *inputs, size_t n, const char *const *out, size_t m, void **outputs,
                            AsyncDone done, void *user) {
    struct AsyncCall *call = malloc(sizeof *call);
    if (!call)
        return runtime->async(session, options, in, inputs, n, out, m, outputs, done, user);
    *call = (struct AsyncCall){done, user, session, edgetop_now(), runtime};
    Status status = runtime->async(session, options, in, inputs, n, out, m, outputs, async_done, call);
    if (status) /* it never began */
        free(call);
    return status;
}

/* A function in a table is not told which table it came from: so there is one of each for each runtime. */
#define RUNTIME(I)                                                                                                     \
    static Status create_##I(void *env, const char *path, void *options, void **session) {                             \
        int64_t start = edgetop_now();                                                                                 \
        Status status = runtimes[I].create(env, path, options, session);                                               \
        if (!status && session)                                                                                        \
            loaded(&runtimes[I], *session, path ? path : "", start);                                                   \
        return status;                                                                                                 \
    }                                                                                                                  \
    static Status create_from_##I(void *env, const void *data, size_t size, void *options, void **session) {           \
        int64_t start = edgetop_now();                                                                                 \
        Status status = runtimes[I].create_from(env, data, size, options, session);                                    \
        if (!status && session)                                                                                        \
            loaded(&runtimes[I], *session, "", start);                                                                 \
        return status;                                                                                                 \
    }                                                                                                                  \
    static Status run_##I(void *session, void *options, const char *const *in, void *const *inputs, size_t n,          \
                          const char *const *out, size_t m, void **outputs) {                                          \
        int64_t start = edgetop_now();                                                                                 \
        Status status = runtimes[I].run(session, options, in, inputs, n, out, m, outputs);                             \
        called(runtimes[I].name, session, start, edgetop_now(), status != NULL, NULL);                                 \
        return status;                                                                                                 \
    }                                                                                                                  \
    static Status bound_##I(void *session, void *options, void *binding) {                                             \
        int64_t start = edgetop_now();                                                                                 \
        Status status = runtimes[I].bound(session, options, binding);                                                  \
        called(runtimes[I].name, session, start, edgetop_now(), status != NULL, NULL);                                 \
        return status;                                                                                                 \
    }                                                                                                                  \
    static Status async_##I(void *session, void *options, const char *const *in, void *const *inputs, size_t n,        \
                            const char *const *out, size_t m, void **outputs, AsyncDone done, void *user) {            \
        return started_async(&runtimes[I], session, options, in, inputs, n, out, m, outputs, done, user);              \
    }                                                                                                                  \
    static void release_##I(void *session) {                                                                           \
        session_released(session);                                                                                     \
        runtimes[I].release(session);                                                                                  \
    }
RUNTIME(0)
RUNTIME(1)
RUNTIME(2)
RUNTIME(3)

#define OURS(I) {create_##I, create_from_##I, run_##I, bound_##I, async_##I, release_##I}
static const struct {
    Create create;
    CreateFrom create_from;
    Run run;
    Bound bound;
    Async async;
    Release release;
} ours[RUNTIMES] = {OURS(0), OURS(1), OURS(2), OURS(3)};

struct Place {
    uintptr_t at;
    int is_relro;
};

static int see_relro(struct dl_phdr_info *info, size_t size, void *data) {
    struct Place *place = data;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO && begin <= place->at && place->at < end)
            place->is_relro = 1;
    }
    return place->is_relro;
}

/* Replace one entry of a table; `real` is set before anybody can call ours. An entry that is ours already stays: the
 * last time, another entry could not be replaced. The page is closed again only where the loader had closed it:
 * otherwise the program may write elsewhere in it. */
static void replace(void **table, int place, void *our, void *real) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)&table[place] & ~(page - 1), end = (uintptr_t)(&table[place] + 1);
    if (!table[place] || table[place] == our || mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE))
        return;
    struct Place entry = {(uintptr_t)&table[place], 0};
    dl_iterate_phdr(see_relro, &entry);
    *(void **)real = table[place];
    __atomic_store_n(&table[place], our, __ATOMIC_RELEASE);
    if (entry.is_relro)
        mprotect((void *)begin, end - begin, PROT_READ);
}

static void patch(struct Base *base) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!base || !base->GetApi || !base->GetVersionString || !edgetop_is_watched())
        return;
    void **table = base->GetApi(1);
    const char *version = base->GetVersionString();
    if (!table || !version)
        return;
    pthread_mutex_lock(&lock);
    int at = 0;
    while (at < RUNTIMES && runtimes[at].table && runtimes[at].table != table)
        at++;
    /* A library that was unloaded and loaded again at the same address has its own functions in its table again. */
    if (at < RUNTIMES && table[RUN] != (void *)ours[at].run) {
        struct Runtime *runtime = &runtimes[at];
        int minor = strncmp(version, "1.", 2) ? 0 : atoi(version + 2); /* asked of GetApi, it would print */
        snprintf(runtime->name, sizeof runtime->name, "onnxruntime\t%.32s", version);
        runtime->table = table;
        replace(table, CREATE_SESSION, (void *)ours[at].create, &runtime->create);
        replace(table, CREATE_SESSION_FROM_ARRAY, (void *)ours[at].create_from, &runtime->create_from);
        replace(table, RELEASE_SESSION, (void *)ours[at].release, &runtime->release);
        if (minor >= BINDING_SINCE)
            replace(table, RUN_WITH_BINDING, (void *)ours[at].bound, &runtime->bound);
        if (minor >= ASYNC_SINCE)
            replace(table, RUN_ASYNC, (void *)ours[at].async, &runtime->async);
        replace(table, RUN, (void *)ours[at].run, &runtime->run);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Finding the real functions ---- */

static Dlsym real_dlsym(void) { /* by its version: by its name alone it would be the one below */
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5", "GLIBC_2.4", "GLIBC_2.27"};
    static Dlsym real;
    for (size_t i = 0; !real && i < sizeof versions / sizeof *versions; i++)
        real = (Dlsym)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    return real;
}

/* The objects that are named like a runtime's library, by an address in each. */
struct Objects {
    int count;
    void *at[RUNTIMES];
};

static int see_object(struct dl_phdr_info *info, size_t size, void *data) {
    static const char wanted[] = "libonnxruntime.so";
    struct Objects *objects = data;
    const char *base = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    (void)size;
    if (base && !strncmp(base + 1, wanted, sizeof wanted - 1) && objects->count < RUNTIMES)
        for (int i = 0; i < info->dlpi_phnum; i++)
            if (info->dlpi_phdr[i].p_type == PT_LOAD) {
                objects->at[objects->count++] = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
                break;
            }
    return 0;
}

/* A function of the object that has this address, or of what that object depends on. NULL: there is none. */
static void *function_of(void *address, const char *name, void *our) {
    Dlsym find = real_dlsym();
    Dl_info info;
    struct link_map *map = NULL;
    if (!find || !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || !map->l_name || !*map->l_name)
        return NULL;
    void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle ? find(handle, name) : NULL;
    if (handle)
        dlclose(handle); /* NOLOAD has counted one more */
    return found == our ? NULL : found;
}

/* What a function of this name would be to the code at `caller` without this library: the next one in the global scope,
 * or, of a library that was loaded with RTLD_LOCAL, one of its own dependencies. NULL: there is none. */
static void *real_function(const char *name, void *caller, void *our) {
    Dlsym find = real_dlsym();
    void *found = find ? find(RTLD_NEXT, name) : NULL;
    return found && found != our ? found : function_of(caller, name, our);
}

struct Base *OrtGetApiBase(void);

static int count_loads(struct dl_phdr_info *info, size_t size, void *loads) {
    *(unsigned long long *)loads = info->dlpi_adds;
    (void)size;
    return 1;
}

/* A runtime may be in nobody's scope but its plug-in's: look at each that was loaded since the last time. */
static void patch_loaded(void) {
    static unsigned long long seen;
    unsigned long long loads = 0;
    struct Objects objects = {0, {0}};
    dl_iterate_phdr(count_loads, &loads);
    if (!edgetop_is_watched() || __atomic_exchange_n(&seen, loads, __ATOMIC_RELAXED) == loads)
        return;
    dl_iterate_phdr(see_object, &objects);
    for (int i = 0; i < objects.count; i++) {
        void *get = function_of(objects.at[i], "OrtGetApiBase", (void *)OrtGetApiBase);
        if (get)
            patch(((struct Base * (*)(void)) get)());
    }
}

#include "cpp_preload.h"
#include "llama_preload.h"

/* ---- What a program calls ---- */

struct Base *OrtGetApiBase(void) { /* by a program, or a plug-in, that is linked with the runtime */
    void *real = real_function("OrtGetApiBase", __builtin_return_address(0), (void *)OrtGetApiBase);
    if (!real) { /* the caller's own libraries are not known: a runtime that is loaded is the one that it means */
        struct Objects objects = {0, {0}};
        dl_iterate_phdr(see_object, &objects);
        for (int i = 0; !real && i < objects.count; i++)
            real = function_of(objects.at[i], "OrtGetApiBase", (void *)OrtGetApiBase);
    }
    struct Base *base = real ? ((struct Base * (*)(void)) real)() : NULL;
    patch(base);
    return base;
}

/* The real function behind a linked call, by where the call is: two plug-ins may have a runtime each. */
static void *linked(const char *name, void *caller, void *our) {
    static struct { void *caller, *real; } known[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        void *one = __atomic_load_n(&known[i].caller, __ATOMIC_ACQUIRE);
        if (one == caller)
            return known[i].real;
        if (!one)
            break;
    }
    void *real = real_function(name, caller, our);
    pthread_mutex_lock(&sessions_lock);
    for (int i = 0; real && i < CALLERS; i++)
        if (!known[i].caller) {
            known[i].real = real;
            __atomic_store_n(&known[i].caller, caller, __ATOMIC_RELEASE);
            break;
        }
    pthread_mutex_unlock(&sessions_lock);
    return real;
}

static int invoked(Invoke real, void *interpreter) {
    int64_t start = edgetop_now();
    int status = real(interpreter);
    called("tflite\t", interpreter, start, edgetop_now(), status, ".tflite");
    return status;
}

static int compiled_ran(Compiled real, void *model, size_t signature, size_t n, void *inputs, size_t m, void *outputs) {
    int64_t start = edgetop_now();
    int status = real(model, signature, n, inputs, m, outputs);
    called("litert\t", model, start, edgetop_now(), status, ".tflite");
    return status;
}

int TfLiteInterpreterInvoke(void *interpreter) {
    void *caller = __builtin_return_address(0);
    Invoke real = (Invoke)linked("TfLiteInterpreterInvoke", caller, (void *)TfLiteInterpreterInvoke);
    return real ? invoked(real, interpreter) : 1; /* kTfLiteError */
}

int LiteRtRunCompiledModel(void *model, size_t signature, size_t n, void *inputs, size_t m, void *outputs) {
    void *caller = __builtin_return_address(0);
    Compiled real = (Compiled)linked("LiteRtRunCompiledModel", caller, (void *)LiteRtRunCompiledModel);
    return real ? compiled_ran(real, model, signature, n, inputs, m, outputs) : 1; /* ...ErrorInvalidArgument */
}

/* For functions that a program finds with dlsym(3): one of ours for each real one. */
static void *found_invokes[RUNTIMES], *found_compileds[RUNTIMES];
#define FOUND(I)                                                                                                       \
    static int invoke_##I(void *interpreter) { return invoked((Invoke)found_invokes[I], interpreter); }                \
    static int compiled_##I(void *model, size_t signature, size_t n, void *inputs, size_t m, void *outputs) {          \
        return compiled_ran((Compiled)found_compileds[I], model, signature, n, inputs, m, outputs);                    \
    }
FOUND(0)
FOUND(1)
FOUND(2)
FOUND(3)
static void *const our_invokes[RUNTIMES] = {(void *)invoke_0, (void *)invoke_1, (void *)invoke_2, (void *)invoke_3};
static void *const our_compileds[RUNTIMES] = {(void *)compiled_0, (void *)compiled_1, (void *)compiled_2,
                                              (void *)compiled_3};

/* Ours in place of a real function; the real one where there are too many. */
static void *ours_for(void *real, void **found, void *const *our) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    void *result = real;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < RUNTIMES; i++) {
        if (!found[i])
            found[i] = real;
        if (found[i] == real) {
            result = our[i];
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

#ifdef LLAMA_FUNCTIONS
/* What a program finds that asks for a function of llama.cpp. */
static void *llama_symbol(Dlsym real, void *handle, int number, void *caller) {
    void *found = real(handle, llama_names[number]);
    if (found && found == llama_own[number]) { /* it was asked for in all libraries, where ours is the first */
        found = real_function(llama_names[number], caller, found);
        if (!found) /* dlerror(3) says so */
            return real(handle, "edgetop: no such function");
    }
    return found && number < LLAMA_COUNT && is_llama(found) ? ours_for(found, llama_found[number], llama_ours[number]) : found;
}
#endif

/* How a program finds functions that loads libraries itself. All that is not a runtime's is left to the real one by a
 * jump and no call: dlsym(3) looks at who called it. */
void *dlsym(void *handle, const char *name) {
    Dlsym real = real_dlsym();
    if (!real)
        return NULL;
    if (!edgetop_is_watched())
        return real(handle, name);
    patch_loaded();
    int is_cpp = !strncmp(name, "_ZN2ov", 6) || !strncmp(name, "_ZNK2ov", 7) || !strncmp(name, "_ZN4ncnn", 8);
    if (is_cpp && handle != RTLD_NEXT) { /* what cpp_preload.h offers is for the linker alone */
        Dl_info own, info;
        void *found = real(handle, name);
        if (!found || !dladdr((void *)OrtGetApiBase, &own) || !dladdr(found, &info) || info.dli_fbase != own.dli_fbase)
            return found;
        found = real_function(name, __builtin_return_address(0), found);
        return found ? found : real(handle, "edgetop: no such function");
    }
#ifdef LLAMA_FUNCTIONS
    int number = llama_number(name);
    if (number >= 0)
        return llama_symbol(real, handle, number, __builtin_return_address(0));
#endif
    int is_ort = !strcmp(name, "OrtGetApiBase"), is_compiled = !strcmp(name, "LiteRtRunCompiledModel");
    if (!is_ort && !is_compiled && strcmp(name, "TfLiteInterpreterInvoke"))
        return real(handle, name);
    void *our = is_compiled ? (void *)LiteRtRunCompiledModel : (void *)TfLiteInterpreterInvoke;
    our = is_ort ? (void *)OrtGetApiBase : our;
    void *found = real(handle, name);
    if (!found || found == our) { /* it was asked for in all libraries, where ours is the first */
        found = real_function(name, __builtin_return_address(0), our);
        if (!found) /* the program would not have found it: neither will it now, and dlerror(3) says so */
            return real(handle, "edgetop: no such function");
    }
    if (is_ort) {
        patch(((struct Base * (*)(void)) found)());
        return found;
    }
    if (is_compiled)
        return ours_for(found, found_compileds, our_compileds);
    return ours_for(found, found_invokes, our_invokes);
}

/* Take this library out of LD_PRELOAD, and leave what the user has there. Its folder is written in another way there:
 * edgetop gives it as one that only this loader finds. */
static void clean_environment(void) {
    const char *list = getenv("LD_PRELOAD"), *own;
    Dl_info info;
    char *kept, *word, *rest, *copy;
    if (!list || !dladdr((void *)OrtGetApiBase, &info) || !info.dli_fname || !(own = strrchr(info.dli_fname, '/')))
        return;
    copy = strdup(list);
    kept = calloc(1, strlen(list) + 2);
    if (copy && kept) {
        for (word = strtok_r(copy, " :", &rest); word; word = strtok_r(NULL, " :", &rest))
            if (!strrchr(word, '/') || strcmp(strrchr(word, '/'), own)) {
                if (*kept)
                    strcat(kept, ":");
                strcat(kept, word);
            }
        if (*kept)
            setenv("LD_PRELOAD", kept, 1);
        else
            unsetenv("LD_PRELOAD");
    }
    free(copy);
    free(kept);
}

static void forked(void) { /* another thread may have held it */
    pthread_mutex_init(&sessions_lock, NULL);
}

__attribute__((constructor)) static void begin(void) {
    pthread_atfork(NULL, NULL, forked);
    edgetop_source = EDGETOP_BY_PRELOAD;
    edgetop_remember(); /* a Python program's hook takes the variable away */
    if (!getenv("EDGETOP_TAP_CHILDREN")) /* programs that this one starts are none of edgetop's business */
        clean_environment();
    patch_loaded(); /* of a program that is linked with its runtime */
}
