/* A library with the C API of ONNX Runtime, as far as a program needs it that runs sessions: a table of functions behind
 * OrtGetApiBase, in the order of onnxruntime_c_api.h. Built with -DVERSION="1.17.3"; with -DLITE it has the C API of
 * TensorFlow Lite instead. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef LITE
int TfLiteInterpreterInvoke(void *interpreter) { return interpreter == NULL; }
#else
typedef void *P;
static P create(P env, const char *path, P options, P *session) {
    (void)env, (void)path, (void)options;
    *session = malloc(64);
    return NULL;
}
static P run(P session, P options, const char *const *in, P const *inputs, size_t n, const char *const *out, size_t m, P *outputs) {
    (void)options, (void)in, (void)inputs, (void)n, (void)out, (void)m, (void)outputs;
    return session ? NULL : (P)1;
}
static P nothing(void) { return NULL; }
static const P table[300] = {[0 ... 6] = (P)nothing, [7] = (P)create, [8] = (P)nothing, [9] = (P)run,
                             [10 ... 94] = (P)nothing, [95] = (P)free, [96 ... 299] = (P)nothing};
static const P *get_api(uint32_t version) { return version == 1 ? table : NULL; }
static const char *get_version(void) { return VERSION; }
static const struct {
    const P *(*api)(uint32_t);
    const char *(*version)(void);
} base = {get_api, get_version};
const void *OrtGetApiBase(void) { return &base; }
#endif
