/* A plug-in that is linked with a runtime, or (with -DLOADS) loads it itself, and runs it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef void *P;
struct Base {
    P *(*api)(uint32_t);
    const char *(*version)(void);
};
#ifdef LITE
int TfLiteInterpreterInvoke(void *);
int plugin_run(const char *model, int runs) {
    static int session;
    (void)model;
    for (int i = 0; i < runs; i++)
        if (TfLiteInterpreterInvoke(&session))
            return 1;
    return 0;
}
#else
#ifndef LOADS
struct Base *OrtGetApiBase(void);
#endif
int plugin_run(const char *model, int runs) {
#ifdef LOADS
    P library = dlopen(LOADS, RTLD_NOW | RTLD_LOCAL);
    struct Base *(*get)(void) = library ? (struct Base * (*)(void)) dlsym(library, "OrtGetApiBase") : NULL;
    struct Base *base = get ? get() : NULL;
#else
    struct Base *base = OrtGetApiBase();
#endif
    P session = NULL, *api = base ? base->api(1) : NULL;
    if (!api || ((P(*)(P, const char *, P, P *))api[7])(NULL, model, NULL, &session))
        return 1;
    for (int i = 0; i < runs; i++)
        if (((P(*)(P, P, P, P, size_t, P, size_t, P))api[9])(session, NULL, NULL, NULL, 0, NULL, 0, NULL))
            return 1;
    ((void (*)(P))api[95])(session);
    return 0;
}
#endif
