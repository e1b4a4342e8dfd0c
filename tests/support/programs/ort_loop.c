/* A C program that runs a model: ort_loop LIBRARY MODEL RUNS WAY, where WAY is run, binding or async.
 *
 * Built with -DLINKED it is linked with ONNX Runtime, otherwise it loads LIBRARY with dlopen. It declares of the API
 * only what it uses, by place in the table (onnxruntime_c_api.h). It prints what each call took by its own clock, in ns.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void *P;
struct Base {
    P *(*GetApi)(uint32_t);
    const char *(*GetVersionString)(void);
};
static P *api;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static int finished;

static void check(P status) {
    if (status) {
        fprintf(stderr, "%s\n", ((const char *(*)(P))api[2])(status));
        exit(3);
    }
}

static void on_done(P user, P *outputs, size_t count, P status) {
    (void)user, (void)outputs, (void)count;
    check(status);
    pthread_mutex_lock(&lock);
    finished = 1;
    pthread_cond_signal(&done);
    pthread_mutex_unlock(&lock);
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

#ifdef LINKED
extern struct Base *OrtGetApiBase(void);
#endif

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    struct Base *base;
#ifdef LINKED
    base = OrtGetApiBase();
#else
    P library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 2;
    base = ((struct Base * (*)(void)) dlsym(library, "OrtGetApiBase"))();
#endif
    api = base->GetApi(16);
    int runs = atoi(argv[3]);
    int64_t shape[] = {1, 3, 224, 224}, *took = calloc((size_t)runs, sizeof *took);
    static float data[3 * 224 * 224];
    const char *in[] = {"image"}, *out[] = {argc > 5 ? argv[5] : "probabilities"};
    P env, options, session, memory, input, binding = NULL;
    check(((P(*)(int, const char *, P *))api[3])(2, "loop", &env));
    check(((P(*)(P *))api[10])(&options));
    check(((P(*)(P, int))api[24])(options, !strcmp(argv[4], "async") ? 2 : 1)); /* SetIntraOpNumThreads */
    check(((P(*)(P, const char *, P, P *))api[7])(env, argv[2], options, &session));
    check(((P(*)(int, int, P *))api[69])(0, 0, &memory)); /* CreateCpuMemoryInfo */
    check(((P(*)(P, void *, size_t, const int64_t *, size_t, int, P *))api[49])(
        memory, data, sizeof data, shape, 4, 1, &input)); /* CreateTensorWithDataAsOrtValue */
    if (!strcmp(argv[4], "binding")) {
        check(((P(*)(P, P *))api[134])(session, &binding));
        check(((P(*)(P, const char *, P))api[136])(binding, in[0], input));
        check(((P(*)(P, const char *, P))api[138])(binding, out[0], memory)); /* BindOutputToDevice */
    }
    for (int i = 0; i < runs; i++) {
        P output = NULL;
        int64_t start = now();
        if (binding)
            check(((P(*)(P, P, P))api[133])(session, NULL, binding));
        else if (!strcmp(argv[4], "async")) {
            finished = 0;
            check(((P(*)(P, P, const char **, P *, size_t, const char **, size_t, P *, P, P))api[260])(
                session, NULL, in, &input, 1, out, 1, &output, (P)on_done, NULL));
            pthread_mutex_lock(&lock);
            while (!finished)
                pthread_cond_wait(&done, &lock);
            pthread_mutex_unlock(&lock);
        } else
            check(((P(*)(P, P, const char **, P *, size_t, const char **, size_t, P *))api[9])(
                session, NULL, in, &input, 1, out, 1, &output));
        took[i] = now() - start;
        if (output)
            ((void (*)(P))api[96])(output); /* ReleaseValue */
    }
    printf("own");
    for (int i = 0; i < runs; i++)
        printf(" %lld", (long long)took[i]);
    printf("\n");
    return 0;
}
