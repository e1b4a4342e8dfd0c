/* Part of ort_preload.c: times the batches of programs that use llama.cpp as a shared library.
 *
 * A call of llama_decode, llama_encode or llama_process (include/llama.h) is an inference of its context, and its tokens
 * are the size of its input. The first two take `struct llama_batch` by value, after a pointer to the context. The
 * structure's size differs between versions: 72 bytes in 2024, 56 since then. Its first field is the number of tokens in
 * all of them. The parameters with which a model is loaded are passed in the same way, and change more often. On x86-64,
 * such a structure is a part of the caller's frame (System V ABI, 3.2.3): more of that frame is passed on than the
 * structure can have. On AArch64, it is a copy whose address is passed (AAPCS64, rule B.4): that address is passed on.
 *
 * llama_process, since 2026, takes a pointer to a structure that only llama.cpp knows. Its tokens are noted when the
 * program adds them.
 *
 * For each batch, the sequences of its tokens are reported as well: how many tokens of which sequence, from which position
 * on, and whether the last one gets scores (logits). The reader tells prompts and generated tokens apart by that.
 *
 * A program may have a function of one of these names that is not llama.cpp's and takes other arguments. So what the
 * linker finds first is a piece of assembly that keeps all registers for arguments, asks which function is to be called,
 * and jumps there.
 *
 * A C++ exception passes through these functions. None of them may hold a lock or memory then.
 */
#pragma once

#if defined __x86_64__ || defined __aarch64__

#define LLAMA_RUNTIME "llama.cpp\t"
enum { GIVEN_WORDS = 32, LLAMA_MODELS = 16, BATCHES = 8, LEAST_PAGE = 4096 };
enum { MOST_RUNS = 64, MOST_TOKENS = 1 << 20, MOST_SEQUENCES = 1 << 16 };

/* All functions that are replaced, with their kind. */
#define LLAMA_FUNCTIONS(EACH)                                                                                          \
    EACH(llama_decode, BATCH)                                                                                          \
    EACH(llama_encode, ENCODE)                                                                                         \
    EACH(llama_process, PROCESS)                                                                                       \
    EACH(llama_model_load_from_file, LOAD)                                                                             \
    EACH(llama_load_model_from_file, LOAD) /* until 2025 */                                                            \
    EACH(llama_model_load_from_splits, LOAD_SPLITS)                                                                    \
    EACH(llama_free, FREE_CONTEXT)                                                                                     \
    EACH(llama_model_free, FREE_MODEL)                                                                                 \
    EACH(llama_free_model, FREE_MODEL) /* until 2025 */

/* All functions whose calls only change what a batch has, with what they do to it: (batch, second and third argument). */
#define LLAMA_COUNTED(EACH)                                                                                            \
    EACH(llama_batch_ext_add, token_added)                                                                             \
    EACH(llama_batch_ext_add_token, token_added)                                                                       \
    EACH(llama_batch_ext_add_embd, token_added)                                                                        \
    EACH(llama_batch_ext_set_pos, token_placed)                                                                        \
    EACH(llama_batch_ext_set_output_logits, token_scored)                                                              \
    EACH(llama_batch_ext_clear, tokens_removed)                                                                        \
    EACH(llama_batch_ext_free, tokens_removed)

#define AS_NUMBER(SYMBOL, KIND) AT_##SYMBOL,
enum { LLAMA_FUNCTIONS(AS_NUMBER) LLAMA_COUNT, LLAMA_LAST = LLAMA_COUNT - 1, LLAMA_COUNTED(AS_NUMBER) LLAMA_NAMES };
#define AS_NAME(SYMBOL, KIND) #SYMBOL,
static const char *const llama_names[] = {LLAMA_FUNCTIONS(AS_NAME) LLAMA_COUNTED(AS_NAME)};

struct Given { /* a structure that is passed by value, and what follows it */
    uint64_t word[GIVEN_WORDS];
};
#ifdef __x86_64__
typedef struct Given Argument;
#define ADDRESS(argument) ((const void *)&(argument))
#else
typedef const void *Argument;
#define ADDRESS(argument) (argument)
#endif

/* ---- Passing on a structure of unknown size ---- */

/* The kernel copies the set of signals before it looks at the number of the operation, which is wrong (kernel/signal.c,
 * rt_sigprocmask). */
static int is_readable(const void *word) {
    int before = errno;
    int result = syscall(SYS_rt_sigprocmask, ~0, word, NULL, sizeof(uint64_t)) == 0 || errno != EFAULT;
    errno = before;
    return result;
}

#ifdef __x86_64__
/* Copy what was given. Near the upper end of a stack, there may be nothing to read after it. */
static inline __attribute__((always_inline)) void copy_given(struct Given *to, const void *from) {
    const volatile uint64_t *word = from; /* volatile: an inlined copy, which no tool replaces by its own memcpy(3) */
    size_t in_page = (LEAST_PAGE - ((uintptr_t)from & (LEAST_PAGE - 1))) / sizeof *word, count = GIVEN_WORDS;
    if (__builtin_expect(in_page < count, 0) && !is_readable((const uint64_t *)from + in_page))
        count = in_page;
    for (size_t i = 0; i < count; i++)
        to->word[i] = word[i];
}
#define PASS_ON(given)                                                                                                 \
    struct Given passed;                                                                                               \
    copy_given(&passed, given)
#else
#define PASS_ON(given) Argument passed = (given)
#endif

/* The first 32 bits of a structure; both architectures are little-endian. */
static inline int32_t first_number(const void *given) {
    return (int32_t)*(const uint64_t *)given;
}

typedef int (*Batch)(void *, Argument);
typedef int (*Process)(void *, int, void *);
typedef void *(*LoadModel)(const char *, Argument);
typedef void *(*LoadSplits)(const char **, size_t, Argument);

/* ---- Models ---- */

static struct {
    void *model;
    char path[LONGEST_PATH];
    int64_t start, end; /* of loading it; 0: that was reported */
} llama_models[LLAMA_MODELS];
static unsigned llama_models_count;

static void model_stored(void *model, const char *path, int64_t start, int64_t end) {
    char absolute[LONGEST_PATH];
    if (!model || !edgetop_is_watched())
        return;
    if (!path || !realpath(path, absolute)) /* the program may change its folder later */
        snprintf(absolute, sizeof absolute, "%s", path ? path : "");
    pthread_mutex_lock(&sessions_lock);
    unsigned at = 0;
    while (at < LLAMA_MODELS && llama_models[at].model && llama_models[at].model != model)
        at++;
    if (at == LLAMA_MODELS) /* the oldest gives way */
        at = llama_models_count++ % LLAMA_MODELS;
    llama_models[at].model = model;
    llama_models[at].start = start;
    llama_models[at].end = end;
    memcpy(llama_models[at].path, absolute, sizeof absolute);
    pthread_mutex_unlock(&sessions_lock);
}

static void model_freed(void *model) {
    pthread_mutex_lock(&sessions_lock);
    for (int at = 0; at < LLAMA_MODELS; at++)
        if (llama_models[at].model == model)
            llama_models[at].model = NULL;
    pthread_mutex_unlock(&sessions_lock);
}

/* Remember a context that is met the first time, and report how long its model took to load, and how many tokens a sequence
 * of it may have. Returns its name. */
static uint16_t context_named(struct edgetop_ring *ring, void *real, void *context) {
    char path[LONGEST_PATH];
    int64_t start = 0, end = 0;
    void *(*get_model)(void *) = (void *(*)(void *))function_of(real, "llama_get_model", NULL);
    int32_t (*get_threads)(void *) = (int32_t(*)(void *))function_of(real, "llama_n_threads", NULL);
    uint32_t (*get_room)(void *) = (uint32_t(*)(void *))function_of(real, "llama_n_ctx_seq", NULL); /* since 2025 */
    void *model = get_model && context ? get_model(context) : NULL;
    path[0] = 0;
    pthread_mutex_lock(&sessions_lock);
    for (int at = 0; at < LLAMA_MODELS; at++)
        if (model && llama_models[at].model == model) {
            memcpy(path, llama_models[at].path, sizeof path);
            start = llama_models[at].start;
            end = llama_models[at].end;
            llama_models[at].start = 0;
        }
    pthread_mutex_unlock(&sessions_lock);
    if (!path[0])
        mapped_model(path, sizeof path, ".gguf");
    uint16_t name = session_named(ring, LLAMA_RUNTIME, context, path);
    if (start) {
        int32_t threads = get_threads ? get_threads(context) : -1;
        uint32_t room = get_room && context ? get_room(context) : 0;
        edgetop_fill(ring, start, end, name, EDGETOP_LOAD, 1, 0, room, threads < 0 ? 0 : (uint32_t)threads + 1);
    }
    return name;
}

/* ---- The tokens of a batch ---- */

struct Run { /* successive tokens of one sequence */
    int32_t sequence, tokens, position; /* `position` of the first one; -1: unknown */
    int32_t scored, scores;             /* the last token with scores, as its number in the run, and their number */
};

struct Tokens {
    void *batch;
    int32_t count, runs; /* number of tokens, and of runs; -1 runs: they are not known */
    struct Run run[MOST_RUNS];
};

static void add_token(struct Tokens *tokens, int32_t sequence, int32_t position) {
    struct Run *last = tokens->runs > 0 ? &tokens->run[tokens->runs - 1] : NULL;
    tokens->count++;
    if (tokens->runs < 0)
        return;
    if (last && last->sequence == sequence && (position < 0 || position == last->position + last->tokens)) {
        last->tokens++;
    } else if (tokens->runs < MOST_RUNS && sequence >= 0 && sequence < MOST_SEQUENCES) {
        tokens->run[tokens->runs++] = (struct Run){sequence, 1, position, -1, 0};
    } else {
        tokens->runs = -1;
    }
}

static void add_scores(struct Run *run, int32_t number) {
    run->scored = number > run->scored ? number : run->scored;
    run->scores++;
}

/* Read `size` bytes where a program says that they are. Returns 0 if there is nothing that may be read. `page` is the last
 * page that was read from. */
static int peek(void *to, const void *from, size_t size, uintptr_t *page) {
    uintptr_t first = (uintptr_t)from & ~(uintptr_t)(LEAST_PAGE - 1);
    if (!from || (((uintptr_t)from + size - 1) & ~(uintptr_t)(LEAST_PAGE - 1)) != first)
        return 0; /* numbers are aligned */
    if (first != *page && !is_readable((const void *)first))
        return 0;
    *page = first;
    memcpy(to, from, size);
    return 1;
}

/* Read the tokens of `struct llama_batch`, whose fields are n_tokens, token, embd, pos, n_seq_id, seq_id and logits. Without
 * seq_id they are of sequence 0, without pos they follow what is in the cache, and without logits only the last one gets
 * scores (llama_batch_allocr::init in src/llama-batch.cpp). */
static void read_tokens(struct Tokens *tokens, const uint64_t *field) {
    const int32_t *pos = (const int32_t *)field[3], *of = NULL;
    const int32_t *const *ids = (const int32_t *const *)field[5];
    const int8_t *logits = (const int8_t *)field[6];
    int32_t count = first_number(field), sequence = 0, position = -1;
    uintptr_t pages[4] = {0};
    tokens->count = tokens->runs = 0;
    if (count < 0 || count > MOST_TOKENS)
        tokens->runs = -1;
    for (int32_t i = 0; i < count && tokens->runs >= 0; i++) {
        int8_t has_scores = i == count - 1;
        if ((ids && !(peek(&of, ids + i, sizeof of, &pages[0]) && peek(&sequence, of, sizeof sequence, &pages[1]))) ||
            (pos && !peek(&position, pos + i, sizeof position, &pages[2])) ||
            (logits && !peek(&has_scores, logits + i, 1, &pages[3]))) {
            tokens->runs = -1;
            return;
        }
        add_token(tokens, sequence, position);
        if (has_scores && tokens->runs > 0)
            add_scores(&tokens->run[tokens->runs - 1], tokens->run[tokens->runs - 1].tokens - 1);
    }
}

/* What the batches of a thread have that were filled by calls. It is no part of the thread's static memory (TLS), which
 * would take the room of threads with a small stack, also in programs without llama.cpp. */
struct Filled {
    struct Tokens tokens[BATCHES];
    unsigned next;
};
static __thread struct Filled *filled; /* NULL: the thread fills no batch by calls */
static __thread int has_no_room;       /* no memory: nothing is known of the batches that the thread fills */
static pthread_key_t filled_key;
static int has_filled_key;

static void filled_ends(void *made) {
    filled = NULL;
    munmap(made, sizeof *filled);
}

static void make_filled_key(void) { has_filled_key = !pthread_key_create(&filled_key, filled_ends); }

/* Memory from the kernel, because the program's own malloc(3) may be the one that calls. It is freed when the thread ends.
 * Returns NULL if there is none. */
static struct Filled *make_filled(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int before = errno;
    void *made = MAP_FAILED;
    pthread_once(&once, make_filled_key);
    if (has_filled_key && !has_no_room)
        made = mmap(NULL, sizeof *filled, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made != MAP_FAILED && pthread_setspecific(filled_key, made)) {
        munmap(made, sizeof *filled);
        made = MAP_FAILED;
    }
    errno = before;
    has_no_room = made == MAP_FAILED;
    return has_no_room ? NULL : made;
}

/* What a batch has that this thread fills by calls; NULL if it is not known. */
static struct Tokens *tokens_of(void *batch) {
    for (int at = 0; filled && at < BATCHES; at++)
        if (filled->tokens[at].batch == batch)
            return &filled->tokens[at];
    return NULL;
}

/* As tokens_of, with a place for a batch that has none: that of another one if there are too many. */
static struct Tokens *place_of(void *batch) {
    struct Tokens *tokens = tokens_of(batch);
    if (tokens || (!filled && !(filled = make_filled())))
        return tokens;
    tokens = &filled->tokens[filled->next++ % BATCHES];
    tokens->batch = batch;
    tokens->count = tokens->runs = 0;
    return tokens;
}

static void token_added(void *batch, uint64_t sequence, uint64_t unused) {
    struct Tokens *tokens = place_of(batch);
    (void)unused;
    if (tokens)
        add_token(tokens, (int32_t)sequence, -1);
}

static void tokens_removed(void *batch, uint64_t unused, uint64_t unused_too) {
    struct Tokens *tokens = tokens_of(batch);
    (void)unused, (void)unused_too;
    if (tokens)
        tokens->count = tokens->runs = 0;
}

/* The run that has token number `number` of a batch, with the token's number in it; NULL if it is not known. */
static struct Run *run_with(struct Tokens *tokens, int32_t *number) {
    int32_t begin = tokens ? tokens->count : 0;
    for (int32_t at = tokens ? tokens->runs - 1 : -1; at >= 0; at--) {
        begin -= tokens->run[at].tokens;
        if (*number >= begin) {
            *number -= begin;
            return *number < tokens->run[at].tokens ? &tokens->run[at] : NULL;
        }
    }
    return NULL;
}

static void copy_tokens(struct Tokens *to, const struct Tokens *from) {
    memcpy(to, from, __builtin_offsetof(struct Tokens, run) + (size_t)from->runs * sizeof from->run[0]);
}

/* What tells the last position of a sequence in the cache of a context: functions of include/llama.h since 2025. */
struct Places {
    void *real; /* llama_decode or llama_process of the same library */
    void *(*memory)(void *context);
    uint32_t (*sequences)(void *context); /* how many sequences a context may have */
    int32_t (*last)(void *memory, int32_t sequence);
};

static const struct Places *places_of(void *real) {
    static __thread struct Places known;
    if (known.real != real) {
        known.memory = (void *(*)(void *))function_of(real, "llama_get_memory", NULL);
        known.sequences = (uint32_t(*)(void *))function_of(real, "llama_n_seq_max", NULL);
        known.last = (int32_t(*)(void *, int32_t))function_of(real, "llama_memory_seq_pos_max", NULL);
        known.real = real;
    }
    return known.memory && known.sequences && known.last ? &known : NULL;
}

/* Fill in positions that the program has left to llama.cpp, which takes those after what the cache has of the sequence
 * (llama_batch_allocr::init in src/llama-batch.cpp). The program may have cleared the cache, so they do not follow from
 * earlier batches. This must be called before the batch is computed. Before 2025, they stay unknown. */
static void place_runs(struct Tokens *tokens, void *real, void *context) {
    for (int at = 0; at < tokens->runs; at++) {
        struct Run *run = &tokens->run[at];
        int before = at - 1;
        while (before >= 0 && tokens->run[before].sequence != run->sequence)
            before--;
        if (run->position < 0 && before >= 0 && tokens->run[before].position >= 0) {
            run->position = tokens->run[before].position + tokens->run[before].tokens;
        } else if (run->position < 0 && before < 0) {
            const struct Places *places = places_of(real);
            void *memory = places && context ? places->memory(context) : NULL;
            /* llama.cpp ends the program if it is asked for a sequence that the context cannot have */
            if (memory && (uint32_t)run->sequence < places->sequences(context))
                run->position = places->last(memory, run->sequence) + 1;
        }
    }
}

static void token_placed(void *batch, uint64_t number, uint64_t positions) {
    struct Tokens *tokens = tokens_of(batch);
    int32_t at = (int32_t)number, position;
    struct Run *run = run_with(tokens, &at);
    if (!run || !positions) /* llama.cpp reads them next without a look */
        return;
    memcpy(&position, (const void *)positions, sizeof position);
    if (at == 0)
        run->position = position;
    else if (run->position >= 0 && position != run->position + at) /* a gap in a sequence: nothing is known of it */
        tokens->runs = -1;
}

static void token_scored(void *batch, uint64_t number, uint64_t has_scores) {
    int32_t at = (int32_t)number;
    struct Run *run = has_scores & 0xff ? run_with(tokens_of(batch), &at) : NULL;
    if (run)
        add_scores(run, at);
}

/* ---- Batches ---- */

/* The batch that a thread computes. If it is still there at a call from the same frame or an outer one, an exception has
 * ended it. */
struct Computing {
    void *real, *context; /* `context` is NULL: none */
    int64_t start;
    int32_t tokens;
    char *frame;
};
static __thread struct Computing computing;

/* `tokens` has its tokens; NULL if they are not known. */
static void batch_ended(const struct Computing *batch, int64_t end, int failed, const struct Tokens *tokens) {
    struct edgetop_ring *ring = edgetop_ring();
    if (!ring)
        return;
    struct Session *session = session_at(batch->context);
    uint16_t name = session ? session->name : context_named(ring, batch->real, batch->context);
    session = session ? session : session_at(batch->context);
    if (tokens && !failed && tokens->runs < 0) /* no tokens: it is not known which the batch has */
        edgetop_fill(ring, batch->start, end, name, EDGETOP_TOKENS, 0, 0, 0, 0);
    for (int at = 0; tokens && !failed && at < tokens->runs; at++) {
        const struct Run *run = &tokens->run[at];
        int scores = run->scored < run->tokens - 1 ? 0 : run->scores > 1 ? 2 : 1;
        edgetop_fill(ring, batch->start, end, name, EDGETOP_TOKENS, scores, (uint32_t)run->sequence,
                    (uint32_t)run->position + 1, (uint32_t)run->tokens);
    }
    call_written(ring, session, name, batch->start, end, failed, batch->tokens > 0 ? (uint32_t)batch->tokens : 0);
}

/* Note the batch that begins, and return the one that this thread computes already: a callback may compute another. */
static inline struct Computing batch_begins(void *real, void *context, int32_t tokens, char *frame) {
    if (computing.context && computing.frame <= frame) {
        batch_ended(&computing, edgetop_now(), 1, NULL);
        computing.context = NULL;
    }
    struct Computing outer = computing;
    computing = (struct Computing){real, context, 0, tokens, frame};
    computing.start = edgetop_now();
    return outer;
}

/* Below 0, a batch has failed. Above 0, llama.cpp found no room in the cache and changed nothing, so that the program may
 * try a smaller batch, or the program's own callback has ended it (include/llama.h): that is no inference. */
static inline void batch_returned(const struct Computing *outer, int status, const struct Tokens *tokens) {
    int64_t end = edgetop_now();
    struct Computing ended = computing;
    computing = *outer;
    if (status <= 0)
        batch_ended(&ended, end, status < 0, tokens);
}

__attribute__((destructor)) static void llama_ends(void) {
    if (computing.context && edgetop_is_watched())
        batch_ended(&computing, edgetop_now(), 1, NULL);
}

/* ---- The functions in place of llama.cpp's, by their kind. REAL is an expression: llama.cpp's own function. ---- */

#define BATCH(NAME, REAL)                                                                                              \
    static int NAME(void *context, Argument batch) {                                                                   \
        Batch real = (Batch)(REAL);                                                                                    \
        struct Tokens tokens;                                                                                          \
        PASS_ON(ADDRESS(batch));                                                                                       \
        read_tokens(&tokens, (const uint64_t *)ADDRESS(passed));                                                       \
        place_runs(&tokens, (void *)real, context);                                                                    \
        int32_t count = first_number(ADDRESS(passed));                                                                 \
        struct Computing outer = batch_begins((void *)real, context, count, __builtin_frame_address(0));               \
        int status = real(context, passed);                                                                            \
        batch_returned(&outer, status, &tokens);                                                                       \
        return status;                                                                                                 \
    }

#define ENCODE(NAME, REAL)                                                                                             \
    static int NAME(void *context, Argument batch) {                                                                   \
        Batch real = (Batch)(REAL);                                                                                    \
        PASS_ON(ADDRESS(batch));                                                                                       \
        int32_t count = first_number(ADDRESS(passed));                                                                 \
        struct Computing outer = batch_begins((void *)real, context, count, __builtin_frame_address(0));               \
        int status = real(context, passed);                                                                            \
        batch_returned(&outer, status, NULL);                                                                          \
        return status;                                                                                                 \
    }

#define PROCESS(NAME, REAL)                                                                                            \
    static int NAME(void *context, int type, void *batch) {                                                            \
        Process real = (Process)(REAL);                                                                                \
        struct Tokens placed, *tokens = tokens_of(batch);                                                              \
        if (tokens && tokens->runs > 0) { /* the program may compute the batch once more, at other positions */        \
            copy_tokens(&placed, tokens);                                                                              \
            place_runs(tokens = &placed, (void *)real, context);                                                       \
        }                                                                                                              \
        struct Computing outer = batch_begins((void *)real, context, tokens ? tokens->count : 0,                       \
                                               __builtin_frame_address(0));                                            \
        int status = real(context, type, batch);                                                                       \
        batch_returned(&outer, status, tokens);                                                                        \
        return status;                                                                                                 \
    }

#define LOAD(NAME, REAL)                                                                                               \
    static void *NAME(const char *path, Argument parameters) {                                                         \
        LoadModel real = (LoadModel)(REAL);                                                                            \
        int64_t start = edgetop_now();                                                                                 \
        PASS_ON(ADDRESS(parameters));                                                                                  \
        void *model = real(path, passed);                                                                              \
        model_stored(model, path, start, edgetop_now());                                                               \
        return model;                                                                                                  \
    }

#define LOAD_SPLITS(NAME, REAL)                                                                                        \
    static void *NAME(const char **paths, size_t count, Argument parameters) {                                         \
        LoadSplits real = (LoadSplits)(REAL);                                                                          \
        int64_t start = edgetop_now();                                                                                 \
        PASS_ON(ADDRESS(parameters));                                                                                  \
        void *model = real(paths, count, passed);                                                                      \
        model_stored(model, count ? paths[0] : "", start, edgetop_now());                                              \
        return model;                                                                                                  \
    }

#define FREE_CONTEXT(NAME, REAL)                                                                                       \
    static void NAME(void *context) {                                                                                  \
        void (*real)(void *) = (void (*)(void *))(REAL);                                                               \
        session_released(context);                                                                                     \
        real(context);                                                                                                 \
    }

#define FREE_MODEL(NAME, REAL)                                                                                         \
    static void NAME(void *model) {                                                                                    \
        void (*real)(void *) = (void (*)(void *))(REAL);                                                               \
        model_freed(model);                                                                                            \
        real(model);                                                                                                   \
    }

/* ---- What a program calls ---- */

/* Save all registers that may hold arguments, ask TARGET(return address, first three arguments) for a function, and jump
 * there. */
#ifdef __x86_64__
#define JUMP(SYMBOL, TARGET)                                                                                           \
    __asm__(".pushsection .text\n.p2align 4\n.globl " SYMBOL "\n.type " SYMBOL ", @function\n"                         \
            ".globl own_" SYMBOL "\n.hidden own_" SYMBOL "\nown_" SYMBOL ":\n" SYMBOL ":\n.cfi_startproc\n"            \
            "endbr64\npush %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n"                                         \
            "mov %rsp, %rbp\n.cfi_def_cfa_register 6\nsub $192, %rsp\n"                                                \
            "mov %rax, -8(%rbp)\nmov %rdi, -16(%rbp)\nmov %rsi, -24(%rbp)\nmov %rdx, -32(%rbp)\n"                      \
            "mov %rcx, -40(%rbp)\nmov %r8, -48(%rbp)\nmov %r9, -56(%rbp)\nmov %r10, -64(%rbp)\n"                       \
            "movups %xmm0, -80(%rbp)\nmovups %xmm1, -96(%rbp)\nmovups %xmm2, -112(%rbp)\nmovups %xmm3, -128(%rbp)\n"   \
            "movups %xmm4, -144(%rbp)\nmovups %xmm5, -160(%rbp)\nmovups %xmm6, -176(%rbp)\nmovups %xmm7, -192(%rbp)\n" \
            "mov %rdx, %rcx\nmov %rsi, %rdx\nmov %rdi, %rsi\nmov 8(%rbp), %rdi\ncall " TARGET "\nmov %rax, %r11\n"                                                     \
            "mov -8(%rbp), %rax\nmov -16(%rbp), %rdi\nmov -24(%rbp), %rsi\nmov -32(%rbp), %rdx\n"                      \
            "mov -40(%rbp), %rcx\nmov -48(%rbp), %r8\nmov -56(%rbp), %r9\nmov -64(%rbp), %r10\n"                       \
            "movups -80(%rbp), %xmm0\nmovups -96(%rbp), %xmm1\nmovups -112(%rbp), %xmm2\nmovups -128(%rbp), %xmm3\n"   \
            "movups -144(%rbp), %xmm4\nmovups -160(%rbp), %xmm5\nmovups -176(%rbp), %xmm6\nmovups -192(%rbp), %xmm7\n" \
            "leave\n.cfi_def_cfa 7, 8\n.cfi_restore 6\njmp *%r11\n.cfi_endproc\n"                                      \
            ".size " SYMBOL ", . - " SYMBOL "\n.popsection\n");
#else
#define JUMP(SYMBOL, TARGET)                                                                                           \
    __asm__(".pushsection .text\n.p2align 4\n.globl " SYMBOL "\n.type " SYMBOL ", %function\n"                         \
            ".globl own_" SYMBOL "\n.hidden own_" SYMBOL "\nown_" SYMBOL ":\n" SYMBOL ":\n.cfi_startproc\n"            \
            "hint #34\nstp x29, x30, [sp, #-224]!\n" /* bti c */                                                       \
            ".cfi_def_cfa_offset 224\n.cfi_offset 29, -224\n.cfi_offset 30, -216\nmov x29, sp\n"                       \
            "stp x0, x1, [sp, #16]\nstp x2, x3, [sp, #32]\nstp x4, x5, [sp, #48]\nstp x6, x7, [sp, #64]\n"             \
            "str x8, [sp, #80]\nstp q0, q1, [sp, #96]\nstp q2, q3, [sp, #128]\nstp q4, q5, [sp, #160]\n"               \
            "stp q6, q7, [sp, #192]\nmov x3, x2\nmov x2, x1\nmov x1, x0\nmov x0, x30\nbl " TARGET "\nmov x16, x0\n"                                        \
            "ldp x0, x1, [sp, #16]\nldp x2, x3, [sp, #32]\nldp x4, x5, [sp, #48]\nldp x6, x7, [sp, #64]\n"             \
            "ldr x8, [sp, #80]\nldp q0, q1, [sp, #96]\nldp q2, q3, [sp, #128]\nldp q4, q5, [sp, #160]\n"               \
            "ldp q6, q7, [sp, #192]\nldp x29, x30, [sp], #224\n"                                                       \
            ".cfi_def_cfa_offset 0\n.cfi_restore 29\n.cfi_restore 30\nbr x16\n.cfi_endproc\n"                          \
            ".size " SYMBOL ", . - " SYMBOL "\n.popsection\n");
#endif

#define AS_JUMP(SYMBOL, KIND)                                                                                          \
    extern char own_##SYMBOL[] __attribute__((visibility("hidden")));                                                  \
    JUMP(#SYMBOL, "target_" #SYMBOL)
LLAMA_FUNCTIONS(AS_JUMP)
LLAMA_COUNTED(AS_JUMP)
#define AS_OWN(SYMBOL, KIND) own_##SYMBOL,
static void *const llama_own[] = {LLAMA_FUNCTIONS(AS_OWN) LLAMA_COUNTED(AS_OWN)};

static struct Caller behind_llama(int number, void *at) {
    return behind(llama_names[number], LLAMA, at, llama_own[number]);
}

static long no_function(void) {
    return 0;
}

static void *llama_target(int number, void *timed, void *caller) {
    struct Caller found = behind_llama(number, caller);
    if (!found.real)
        return (void *)no_function;
    return found.is_llama && edgetop_is_watched() ? timed : found.real;
}

/* For each function, one for calls that the linker has bound, and some for what a program finds with dlsym(3). */
static void *llama_found[LLAMA_COUNT][RUNTIMES];
#define AS_FUNCTIONS(SYMBOL, KIND)                                                                                     \
    KIND(linked_##SYMBOL, behind_llama(AT_##SYMBOL, __builtin_return_address(0)).real)                                 \
    KIND(found_##SYMBOL##_0, llama_found[AT_##SYMBOL][0])                                                              \
    KIND(found_##SYMBOL##_1, llama_found[AT_##SYMBOL][1])                                                              \
    KIND(found_##SYMBOL##_2, llama_found[AT_##SYMBOL][2])                                                              \
    KIND(found_##SYMBOL##_3, llama_found[AT_##SYMBOL][3])                                                              \
    __attribute__((used, visibility("hidden"))) void *target_##SYMBOL(void *caller);                                   \
    void *target_##SYMBOL(void *caller) { return llama_target(AT_##SYMBOL, (void *)linked_##SYMBOL, caller); }
LLAMA_FUNCTIONS(AS_FUNCTIONS)
#define AS_COUNTED(SYMBOL, CHANGE)                                                                                     \
    __attribute__((used, visibility("hidden"))) void *target_##SYMBOL(void *caller, void *batch, uint64_t, uint64_t);  \
    void *target_##SYMBOL(void *caller, void *batch, uint64_t second, uint64_t third) {                                \
        struct Caller found = behind_llama(AT_##SYMBOL, caller);                                                       \
        if (found.is_llama)                                                                                            \
            CHANGE(batch, second, third);                                                                              \
        return found.real ? found.real : (void *)no_function;                                                          \
    }
LLAMA_COUNTED(AS_COUNTED)
#define AS_FOUND(SYMBOL, KIND)                                                                                         \
    {(void *)found_##SYMBOL##_0, (void *)found_##SYMBOL##_1, (void *)found_##SYMBOL##_2, (void *)found_##SYMBOL##_3},
static void *const llama_ours[LLAMA_COUNT][RUNTIMES] = {LLAMA_FUNCTIONS(AS_FOUND)};

/* Which of llama.cpp's functions has this name; -1 for none. */
static int llama_number(const char *name) {
    for (int number = 0; !strncmp(name, "llama_", 6) && number < LLAMA_NAMES; number++)
        if (!strcmp(name, llama_names[number]))
            return number;
    return -1;
}

#endif
