/* Part of ort_preload.c: times the inferences of C and C++ programs that use OpenVINO or a shared ncnn.
 *
 * Both are C++ libraries whose functions are symbols that the loader resolves. This library offers the same symbols
 * before them, and passes each call on. OpenVINO's C API calls the C++ functions, and so is seen as well. Objects are
 * known by the address of their implementation, since a program may copy and move them. What is taken from their layout:
 * the first word of ov::InferRequest and ov::CompiledModel is that address (infer_request.hpp, compiled_model.hpp), the
 * first word of std::shared_ptr is the object's, std::string begins with pointer and length, and std::function is two
 * words of data, its manager and its invoker (libstdc++, bits/std_function.h). Python's OpenVINO is left to the hook.
 *
 * A C++ exception passes through these functions. None of them may hold a lock or memory then.
 */
#pragma once

enum { CPP_CALLERS = 256, MODELS_READ = 64 };
enum { CLONE_FUNCTOR = 2, DESTROY_FUNCTOR = 3 }; /* std::_Manager_operation */
#define OPENVINO "libopenvino.so"
#define NCNN "libncnn.so"
#define LLAMA "libllama" /* node-llama-cpp has libllama.v0.5.0.so */

struct String { /* std::string, and std::filesystem::path, which begins with one */
    const char *text;
    size_t length;
};
struct Handle { /* ov::CompiledModel and ov::InferRequest: two std::shared_ptr */
    void *word[4];
};
struct Functor;
typedef int (*Manage)(void **, void *const *, int);
typedef void (*InvokeFunctor)(void *const *, void **);
struct Functor { /* std::function<void(std::exception_ptr)> */
    void *data[2];
    Manage manage;
    InvokeFunctor invoke;
};
struct Version {
    const char *number, *description;
};

/* ---- The real functions ---- */

struct Caller {
    void *at, *real;
    int is_python; /* the call is from OpenVINO's Python module */
    int is_llama;  /* the function is llama.cpp's */
};

struct Wanted {
    const char *name;
    void *at;
};

static int see_library(struct dl_phdr_info *info, size_t size, void *data) {
    struct Wanted *wanted = data;
    const char *base = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    (void)size;
    if (base && !strncmp(base + 1, wanted->name, strlen(wanted->name)))
        for (int i = 0; i < info->dlpi_phnum && !wanted->at; i++)
            if (info->dlpi_phdr[i].p_type == PT_LOAD)
                wanted->at = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return wanted->at != NULL;
}

/* Whether a function is llama.cpp's: its file is named so, or has other functions of llama.cpp. */
static int is_llama(void *function) {
    Dl_info info, other;
    if (!function || !dladdr(function, &info) || !info.dli_fname)
        return 0;
    const char *base = strrchr(info.dli_fname, '/');
    if (strstr(base ? base : info.dli_fname, "llama"))
        return 1;
    void *found = function_of(function, "llama_batch_init", NULL);
    return found && dladdr(found, &other) && other.dli_fbase == info.dli_fbase;
}

/* The function behind a call, by where the call is. A library that nobody's scope has is found by its name. */
static struct Caller behind(const char *symbol, const char *library, void *at, void *our) {
    static struct Caller known[CPP_CALLERS];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    size_t first = ((uintptr_t)at >> 2) * 0x9E3779B97F4A7C15ull >> 56;
    for (size_t i = 0, slot = first; i < CPP_CALLERS; i++, slot = (slot + 1) % CPP_CALLERS) {
        void *one = __atomic_load_n(&known[slot].at, __ATOMIC_ACQUIRE);
        if (one == at)
            return known[slot];
        if (!one)
            break;
    }
    struct Caller found = {at, real_function(symbol, at, our), 0, 0};
    Dl_info info;
    if (!found.real) {
        struct Wanted wanted = {library, NULL};
        dl_iterate_phdr(see_library, &wanted);
        found.real = wanted.at ? function_of(wanted.at, symbol, our) : NULL;
    }
    found.is_python = dladdr(at, &info) && info.dli_fname && strstr(info.dli_fname, "_pyopenvino");
    found.is_llama = !strcmp(library, LLAMA) && is_llama(found.real);
    if (!found.real)
        return found;
    pthread_mutex_lock(&lock);
    for (size_t i = 0, slot = first; i < CPP_CALLERS; i++, slot = (slot + 1) % CPP_CALLERS)
        if (!known[slot].at || known[slot].at == at) {
            known[slot].real = found.real;
            known[slot].is_python = found.is_python;
            known[slot].is_llama = found.is_llama;
            __atomic_store_n(&known[slot].at, at, __ATOMIC_RELEASE);
            break;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

#define BEHIND(symbol, library, our) behind(symbol, library, __builtin_return_address(0), (void *)(our))

/* ---- OpenVINO: models ---- */

static const char *openvino_runtime(void *caller) {
    static char name[48];
    if (!__atomic_load_n(&name[0], __ATOMIC_ACQUIRE)) {
        struct Version (*get)(void) = (struct Version(*)(void))real_function("get_openvino_version", caller, NULL);
        const char *version = get ? get().number : "";
        char text[48];
        snprintf(text, sizeof text, "openvino\t%.*s", (int)strcspn(version, "-"), version);
        memcpy(name + 1, text + 1, sizeof name - 1);
        __atomic_store_n(&name[0], text[0], __ATOMIC_RELEASE);
    }
    return name;
}

static const char *copied(char *path, size_t size, const struct String *from) {
    path[0] = 0;
    if (from && from->text && from->length < size && !memchr(from->text, 0, from->length)) {
        memcpy(path, from->text, from->length);
        path[from->length] = 0;
    }
    return path;
}

/* The name that a model has in its file, which is all that some models tell of their origin. */
static const struct String *friendly_name(void *caller, void *model) {
    const char *symbol = "_ZNK2ov5Model17get_friendly_nameB5cxx11Ev";
    const struct String *(*get)(void *) = (const struct String *(*)(void *))real_function(symbol, caller, NULL);
    return get && model ? get(model) : NULL;
}

static struct {
    void *model;
    char path[LONGEST_PATH], name[128];
} models_read[MODELS_READ];
static unsigned models_count;

static void model_is_read(void *caller, void *model, const struct String *path) {
    char name[128];
    copied(name, sizeof name, friendly_name(caller, model));
    pthread_mutex_lock(&sessions_lock);
    unsigned at = 0;
    while (at < MODELS_READ && models_read[at].model != model)
        at++;
    if (at == MODELS_READ) /* the oldest gives way */
        at = models_count++ % MODELS_READ;
    copied(models_read[at].path, LONGEST_PATH, path);
    memcpy(models_read[at].name, name, sizeof name);
    models_read[at].model = model;
    pthread_mutex_unlock(&sessions_lock);
}

/* The file of a model that was read, else its name. */
static void model_path(void *caller, void *model, char *path) {
    copied(path, LONGEST_PATH, friendly_name(caller, model));
    pthread_mutex_lock(&sessions_lock);
    for (int at = 0; at < MODELS_READ; at++)
        if (model && models_read[at].model == model && !strcmp(models_read[at].name, path)) {
            snprintf(path, LONGEST_PATH, "%s", models_read[at].path);
            break;
        }
    pthread_mutex_unlock(&sessions_lock);
}

static void compiled_model(void *caller, void *impl, const char *path, int64_t start) {
    static __thread struct {
        void *impl;
        int64_t start;
    } newest;
    struct edgetop_ring *ring = edgetop_ring();
    int64_t end = edgetop_now();
    if (!ring || !impl || (newest.impl == impl && newest.start >= start)) /* one function may call another one */
        return;
    newest.impl = impl;
    newest.start = start;
    uint16_t name = session_named(ring, openvino_runtime(caller), impl, path);
    edgetop_write(ring, start, end, name, EDGETOP_LOAD, 1, 0, 0);
}

typedef struct Handle (*CompileModel)(void *, void *, void *, void *);
/* `FILE_GIVEN`: the first argument is the path of a file, not a model. */
#define COMPILE_MODEL(NAME, SYMBOL, FILE_GIVEN)                                                                        \
    struct Handle NAME(void *core, void *first, void *second, void *third) __asm__(SYMBOL);                            \
    struct Handle NAME(void *core, void *first, void *second, void *third) {                                           \
        struct Caller caller = BEHIND(SYMBOL, OPENVINO, NAME);                                                         \
        int64_t start = edgetop_now();                                                                                 \
        struct Handle made = ((CompileModel)caller.real)(core, first, second, third);                                  \
        if (!caller.is_python && edgetop_is_watched()) {                                                               \
            char path[LONGEST_PATH];                                                                                   \
            if (FILE_GIVEN)                                                                                            \
                copied(path, sizeof path, first);                                                                      \
            else                                                                                                       \
                model_path(caller.at, *(void **)first, path);                                                          \
            compiled_model(caller.at, made.word[0], path, start);                                                      \
        }                                                                                                              \
        return made;                                                                                                   \
    }
#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define CORE_COMPILES "_ZN2ov4Core13compile_modelERK"
COMPILE_MODEL(compile_string, CORE_COMPILES STRING "RKSt3mapIS6_NS_3AnyESt4lessIS6_ESaISt4pairIS7_SA_EEE", 1)
COMPILE_MODEL(compile_string_on, CORE_COMPILES STRING "S8_RKSt3mapIS6_NS_3AnyESt4lessIS6_ESaISt4pairIS7_SA_EEE", 1)
COMPILE_MODEL(compile_path, CORE_COMPILES "NSt10filesystem7__cxx114pathERKSt3mapI" STRING
              "NS_3AnyESt4lessISC_ESaISt4pairIKSC_SD_EEE", 1)
COMPILE_MODEL(compile_path_on, CORE_COMPILES "NSt10filesystem7__cxx114pathERK" STRING
              "RKSt3mapISB_NS_3AnyESt4lessISB_ESaISt4pairISC_SF_EEE", 1)
COMPILE_MODEL(compile_read, CORE_COMPILES "St10shared_ptrIKNS_5ModelEERKSt3mapI" STRING
              "NS_3AnyESt4lessISD_ESaISt4pairIKSD_SE_EEE", 0)
COMPILE_MODEL(compile_read_on, CORE_COMPILES "St10shared_ptrIKNS_5ModelEERK" STRING
              "RKSt3mapISC_NS_3AnyESt4lessISC_ESaISt4pairISD_SG_EEE", 0)

#ifdef __x86_64__ /* elsewhere, C cannot express a function that returns a std::shared_ptr */
typedef void *(*ReadModel)(void *, void *, void *, void *, void *);
#define READ_MODEL(NAME, SYMBOL)                                                                                       \
    void *NAME(void **made, void *core, void *path, void *weights, void *config) __asm__(SYMBOL);                      \
    void *NAME(void **made, void *core, void *path, void *weights, void *config) {                                     \
        struct Caller caller = BEHIND(SYMBOL, OPENVINO, NAME);                                                         \
        void *result = ((ReadModel)caller.real)(made, core, path, weights, config);                                    \
        if (!caller.is_python && edgetop_is_watched())                                                                 \
            model_is_read(caller.at, *made, path);                                                                     \
        return result;                                                                                                 \
    }
#define CORE_READS "_ZNK2ov4Core10read_modelERK"
READ_MODEL(read_string, CORE_READS STRING "S8_RKSt3mapIS6_NS_3AnyESt4lessIS6_ESaISt4pairIS7_SA_EEE")
READ_MODEL(read_path, CORE_READS "NSt10filesystem7__cxx114pathES5_RKSt3mapI" STRING
                                 "NS_3AnyESt4lessISC_ESaISt4pairIKSC_SD_EEE")
#endif

/* ---- OpenVINO: inferences ---- */

/* The request of a synchronous call that has not returned. If it is still there at the thread's next call, that one has
 * raised. */
static __thread struct {
    void *impl;
    int64_t start;
} running;

static void end_raised(const char *runtime) {
    if (running.impl)
        called(runtime, running.impl, running.start, edgetop_now(), 1, NULL);
    running.impl = NULL;
}

#define INFER "_ZN2ov12InferRequest5inferEv"
void openvino_infer(void **request) __asm__(INFER);
void openvino_infer(void **request) {
    struct Caller caller = BEHIND(INFER, OPENVINO, openvino_infer);
    void *impl = *request;
    if (caller.is_python || !impl || !edgetop_is_watched()) {
        ((void (*)(void **))caller.real)(request);
        return;
    }
    const char *runtime = openvino_runtime(caller.at);
    end_raised(runtime);
    running.start = edgetop_now();
    running.impl = impl;
    ((void (*)(void **))caller.real)(request);
    running.impl = NULL;
    called(runtime, impl, running.start, edgetop_now(), 0, NULL);
}

__attribute__((destructor)) static void openvino_ends(void) {
    if (edgetop_is_watched())
        end_raised("openvino\t");
}

static void openvino_completed(void *impl, int failed) {
    struct Session *session = session_at(impl);
    int64_t start = session ? __atomic_exchange_n(&session->started, 0, __ATOMIC_ACQ_REL) : 0;
    if (start)
        called("openvino\t", impl, start, edgetop_now(), failed, NULL);
}

/* OpenVINO calls a request's callback when an asynchronous inference has ended, with a pointer to its exception. */
static int manage_plain(void **to, void *const *from, int operation) {
    to[0] = operation == CLONE_FUNCTOR ? from[0] : NULL;
    return 0;
}

static void invoke_plain(void *const *data, void **exception) {
    openvino_completed(data[0], *exception != NULL);
}

/* A program's own callback, and the request that it belongs to. */
struct Wrapped {
    void *impl;
    struct Functor own;
    int shares; /* copies that share it, because there was no memory for one of their own */
};

static int manage_wrapped(void **to, void *const *from, int operation) {
    struct Wrapped *wrapped;
    if (operation == CLONE_FUNCTOR) {
        struct Wrapped *other = from[0];
        to[0] = wrapped = malloc(sizeof *wrapped);
        if (!wrapped) {
            __atomic_add_fetch(&other->shares, 1, __ATOMIC_ACQ_REL);
            to[0] = other;
            return 0;
        }
        *wrapped = *other;
        wrapped->shares = 0;
        other->own.manage(wrapped->own.data, other->own.data, CLONE_FUNCTOR);
    } else if (operation == DESTROY_FUNCTOR) {
        wrapped = to[0];
        if (__atomic_fetch_sub(&wrapped->shares, 1, __ATOMIC_ACQ_REL))
            return 0;
        wrapped->own.manage(wrapped->own.data, wrapped->own.data, DESTROY_FUNCTOR);
        free(wrapped);
    } else if (operation) { /* the address of the function object */
        to[0] = from[0];
    } else { /* its type, which is not known */
        to[0] = NULL;
    }
    return 0;
}

static void invoke_wrapped(void *const *data, void **exception) {
    struct Wrapped *wrapped = data[0];
    openvino_completed(wrapped->impl, *exception != NULL);
    wrapped->own.invoke(wrapped->own.data, exception);
}

#define SET_CALLBACK "_ZN2ov12InferRequest12set_callbackESt8functionIFvNSt15__exception_ptr13exception_ptrEEE"
typedef void (*SetCallback)(void **, struct Functor *);
void openvino_set_callback(void **request, struct Functor *callback) __asm__(SET_CALLBACK);
void openvino_set_callback(void **request, struct Functor *callback) {
    struct Caller caller = BEHIND(SET_CALLBACK, OPENVINO, openvino_set_callback);
    struct Wrapped *wrapped;
    if (!caller.is_python && *request && edgetop_is_watched() && callback->manage && (wrapped = malloc(sizeof *wrapped))) {
        *wrapped = (struct Wrapped){*request, *callback, 0}; /* moved, as std::function's move constructor does it */
        *callback = (struct Functor){{wrapped, NULL}, manage_wrapped, invoke_wrapped};
    }
    ((SetCallback)caller.real)(request, callback);
}

#define CREATE_REQUEST "_ZN2ov13CompiledModel20create_infer_requestEv"
struct Handle openvino_create_request(void **compiled) __asm__(CREATE_REQUEST);
struct Handle openvino_create_request(void **compiled) {
    struct Caller caller = BEHIND(CREATE_REQUEST, OPENVINO, openvino_create_request);
    struct Handle made = ((struct Handle(*)(void **))caller.real)(compiled);
    struct edgetop_ring *ring = caller.is_python || !*compiled ? NULL : edgetop_ring();
    if (ring) {
        struct Session *session = session_at(*compiled);
        uint16_t name = session ? session->name : session_named(ring, openvino_runtime(caller.at), *compiled, "");
        SetCallback set = (SetCallback)real_function(SET_CALLBACK, caller.at, (void *)openvino_set_callback);
        struct Functor plain = {{made.word[0], NULL}, manage_plain, invoke_plain};
        pthread_mutex_lock(&sessions_lock);
        session_stored(made.word[0], name, 1);
        pthread_mutex_unlock(&sessions_lock);
        if (set)
            set((void **)&made, &plain);
    }
    return made;
}

/* A handle is deleted. With the last one, which the reference count of std::shared_ptr tells (bits/shared_ptr_base.h),
 * the address may be used again. */
#define HANDLE_ENDS(NAME, SYMBOL)                                                                                      \
    void NAME(void **handle) __asm__(SYMBOL);                                                                          \
    void NAME(void **handle) {                                                                                         \
        struct Caller caller = BEHIND(SYMBOL, OPENVINO, NAME);                                                         \
        if (!caller.is_python && handle[0] && handle[1] && __atomic_load_n((int *)handle[1] + 2, __ATOMIC_RELAXED) == 1) \
            session_released(handle[0]);                                                                               \
        if (caller.real)                                                                                               \
            ((void (*)(void **))caller.real)(handle);                                                                  \
    }
HANDLE_ENDS(openvino_compiled_deleted, "_ZN2ov13CompiledModelD1Ev")
HANDLE_ENDS(openvino_request_deleted, "_ZN2ov12InferRequestD1Ev")

#define START_ASYNC "_ZN2ov12InferRequest11start_asyncEv"
void openvino_start_async(void **request) __asm__(START_ASYNC);
void openvino_start_async(void **request) {
    struct Caller caller = BEHIND(START_ASYNC, OPENVINO, openvino_start_async);
    struct Session *session = caller.is_python || !*request ? NULL : session_at(*request);
    if (session) {
        int64_t never = 0; /* of a request that still runs, the start stays: OpenVINO raises */
        __atomic_compare_exchange_n(&session->started, &never, edgetop_now(), 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
    ((void (*)(void **))caller.real)(request);
}

/* ---- ncnn: an inference is from the first input of an extractor to its last output ---- */

static __thread struct {
    void **extractor, *net;
    int64_t start, end; /* `end` is 0: no output was extracted yet */
    int failed, depth;
} extraction;

static void end_extraction(void) {
    if (extraction.extractor && extraction.end)
        called("ncnn\t", extraction.net, extraction.start, extraction.end, extraction.failed, NULL);
    extraction.extractor = NULL;
}

/* The net of an extractor: a word of it, or the first word of what its second word points to (src/net.cpp). All nets of
 * which the program has not loaded the param file by its name are one. */
static void *net_of(void **extractor) {
    static int unknown;
    void *candidates[] = {extractor[0], extractor[1], NULL};
    if (session_at(candidates[0]))
        return candidates[0];
    if (!candidates[1] || session_at(candidates[1]))
        return candidates[1] ? candidates[1] : &unknown;
    candidates[2] = *(void **)candidates[1];
    return candidates[2] && session_at(candidates[2]) ? candidates[2] : &unknown;
}

static void begin_extraction(void **extractor) {
    if (extraction.extractor == extractor && !extraction.end)
        return;
    end_extraction();
    extraction.extractor = extractor;
    extraction.net = net_of(extractor);
    extraction.start = edgetop_now();
    extraction.end = extraction.failed = 0;
}

#define EXTRACTOR_INPUT(NAME, SYMBOL, KEY)                                                                             \
    int NAME(void **extractor, KEY key, void *mat) __asm__(SYMBOL);                                                    \
    int NAME(void **extractor, KEY key, void *mat) {                                                                   \
        struct Caller caller = BEHIND(SYMBOL, NCNN, NAME);                                                             \
        if (!extraction.depth && edgetop_is_watched())                                                                 \
            begin_extraction(extractor);                                                                               \
        extraction.depth++;                                                                                            \
        int status = ((int (*)(void **, KEY, void *))caller.real)(extractor, key, mat);                                \
        extraction.depth--;                                                                                            \
        return status;                                                                                                 \
    }
EXTRACTOR_INPUT(ncnn_input_name, "_ZN4ncnn9Extractor5inputEPKcRKNS_3MatE", const char *)
EXTRACTOR_INPUT(ncnn_input_index, "_ZN4ncnn9Extractor5inputEiRKNS_3MatE", int)

#define EXTRACTOR_EXTRACT(NAME, SYMBOL, KEY)                                                                           \
    int NAME(void **extractor, KEY key, void *mat, int type) __asm__(SYMBOL);                                          \
    int NAME(void **extractor, KEY key, void *mat, int type) {                                                         \
        struct Caller caller = BEHIND(SYMBOL, NCNN, NAME);                                                             \
        if (!extraction.depth && edgetop_is_watched() && extraction.extractor != extractor)                            \
            begin_extraction(extractor);                                                                               \
        extraction.depth++;                                                                                            \
        int status = ((int (*)(void **, KEY, void *, int))caller.real)(extractor, key, mat, type);                     \
        if (!--extraction.depth && extraction.extractor == extractor) {                                                \
            extraction.end = edgetop_now();                                                                            \
            extraction.failed |= status != 0;                                                                          \
        }                                                                                                              \
        return status;                                                                                                 \
    }
EXTRACTOR_EXTRACT(ncnn_extract_name, "_ZN4ncnn9Extractor7extractEPKcRNS_3MatEi", const char *)
EXTRACTOR_EXTRACT(ncnn_extract_index, "_ZN4ncnn9Extractor7extractEiRNS_3MatEi", int)

#define EXTRACTOR_ENDS(NAME, SYMBOL)                                                                                   \
    void NAME(void **extractor) __asm__(SYMBOL);                                                                       \
    void NAME(void **extractor) {                                                                                      \
        struct Caller caller = BEHIND(SYMBOL, NCNN, NAME);                                                             \
        if (extraction.extractor == extractor)                                                                         \
            end_extraction();                                                                                          \
        if (caller.real)                                                                                               \
            ((void (*)(void **))caller.real)(extractor);                                                               \
    }
EXTRACTOR_ENDS(ncnn_extractor_clear, "_ZN4ncnn9Extractor5clearEv")
EXTRACTOR_ENDS(ncnn_extractor_deleted, "_ZN4ncnn9ExtractorD1Ev")

#define LOAD_PARAM "_ZN4ncnn3Net10load_paramEPKc"
int ncnn_load_param(void *net, const char *path) __asm__(LOAD_PARAM);
int ncnn_load_param(void *net, const char *path) {
    struct Caller caller = BEHIND(LOAD_PARAM, NCNN, ncnn_load_param);
    struct edgetop_ring *ring = edgetop_ring();
    int64_t start = edgetop_now();
    int status = ((int (*)(void *, const char *))caller.real)(net, path);
    if (ring && !status) {
        session_named(ring, "ncnn\t", net, path ? path : "");
        struct Session *session = session_at(net);
        if (session)
            session->started = start;
    }
    return status;
}

#define LOAD_MODEL "_ZN4ncnn3Net10load_modelEPKc"
int ncnn_load_model(void *net, const char *path) __asm__(LOAD_MODEL);
int ncnn_load_model(void *net, const char *path) {
    struct Caller caller = BEHIND(LOAD_MODEL, NCNN, ncnn_load_model);
    int status = ((int (*)(void *, const char *))caller.real)(net, path);
    struct edgetop_ring *ring = edgetop_ring();
    struct Session *session = ring && !status ? session_at(net) : NULL;
    if (session && session->started)
        edgetop_write(ring, session->started, edgetop_now(), session->name, EDGETOP_LOAD, 1, 0, 0);
    return status;
}

#define NET_DELETED "_ZN4ncnn3NetD1Ev"
void ncnn_net_deleted(void *net) __asm__(NET_DELETED);
void ncnn_net_deleted(void *net) {
    struct Caller caller = BEHIND(NET_DELETED, NCNN, ncnn_net_deleted);
    session_released(net);
    if (caller.real)
        ((void (*)(void *))caller.real)(net);
}
