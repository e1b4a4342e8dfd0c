/* What llama_library.cpp and llama_program.cpp share: the structures that are passed by value, with a pattern in them. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifndef BATCH_BYTES
#define BATCH_BYTES 56
#endif
enum { PARAMETER_BYTES = 80, NO_ROOM = 1001, ABORTED, INVALID, THROWS, NESTS };

extern "C" {
#ifdef FOREIGN
double llama_decode(double a, long b, const char *text, int c, int d, int e, int f, long g, double h);
#else
struct alignas(8) llama_batch {
    int32_t n_tokens;
    unsigned char rest[BATCH_BYTES - 4];
};
struct alignas(8) llama_model_params {
    unsigned char rest[PARAMETER_BYTES];
};
struct llama_model;
struct llama_context;
int32_t llama_decode(llama_context *context, llama_batch batch);
int32_t llama_encode(llama_context *context, llama_batch batch);
#ifndef OLD
struct llama_batch_ext;
int32_t llama_process(llama_context *context, int type, llama_batch_ext *batch);
llama_batch_ext *llama_batch_ext_init(llama_context *context);
int32_t llama_batch_ext_add_token(llama_batch_ext *batch, int32_t sequence, int32_t token);
void llama_batch_ext_clear(llama_batch_ext *batch);
void llama_batch_ext_free(llama_batch_ext *batch);
#endif
llama_batch llama_batch_init(int32_t tokens, int32_t embeddings, int32_t sequences);
llama_model *llama_get_model(llama_context *context);
int32_t llama_n_threads(llama_context *context);
llama_context *llama_init_from_model(llama_model *model);
void llama_free(llama_context *context);
#ifdef OLD
#define llama_model_load_from_file llama_load_model_from_file
#define llama_model_free llama_free_model
#endif
llama_model *llama_model_load_from_file(const char *path, llama_model_params parameters);
llama_model *llama_model_load_from_splits(const char **paths, size_t count, llama_model_params parameters);
void llama_model_free(llama_model *model);
#endif
}

#ifndef FOREIGN
static inline llama_batch batch_of(int tokens) {
    llama_batch batch;
    batch.n_tokens = tokens;
    for (size_t i = 0; i < sizeof batch.rest; i++)
        batch.rest[i] = (unsigned char)(tokens + i);
    return batch;
}
static inline llama_model_params parameters(void) {
    llama_model_params made;
    for (size_t i = 0; i < sizeof made.rest; i++)
        made.rest[i] = (unsigned char)(9 + i);
    return made;
}
#endif
