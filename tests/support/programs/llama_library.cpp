/* A library with some functions of llama.cpp (include/llama.h) that computes nothing. -DBATCH_BYTES=N is the size of its
 * `struct llama_batch`. With -DOLD, it has the names of 2024. With -DFOREIGN, it has nothing to do with llama.cpp, and a
 * function that happens to be called llama_decode. */
#include "llama_library.h"
#include <stdexcept>
#include <stdio.h>
#include <string.h>

#ifdef FOREIGN
double llama_decode(double a, long b, const char *text, int c, int d, int e, int f, long g, double h) {
    return a + (double)b + (double)strlen(text) + c + d + e + f + (double)g + h;
}
#else
struct llama_model {
    char path[256];
};
struct llama_context {
    llama_model *model;
    int calls;
};

static bool is_whole(const unsigned char *rest, size_t count, int from) {
    for (size_t i = 0; i < count; i++)
        if (rest[i] != (unsigned char)(from + i))
            return false;
    return true;
}

static int32_t computed(llama_context *context, llama_batch batch) {
    if (!is_whole(batch.rest, sizeof batch.rest, batch.n_tokens))
        return -77;
    context->calls++;
    if (batch.n_tokens == THROWS)
        throw std::runtime_error("thrown");
    if (batch.n_tokens == NESTS)
        return llama_decode(context, batch_of(3));
    return batch.n_tokens == NO_ROOM ? 1 : batch.n_tokens == ABORTED ? 2 : batch.n_tokens == INVALID ? -1 : 0;
}

int32_t llama_decode(llama_context *context, llama_batch batch) { return computed(context, batch); }
int32_t llama_encode(llama_context *context, llama_batch batch) { return computed(context, batch); }
#ifndef OLD
struct llama_batch_ext {
    int32_t tokens;
};
int32_t llama_process(llama_context *context, int type, llama_batch_ext *batch) {
    return type == 1 ? computed(context, batch_of(batch->tokens)) : -1;
}
llama_batch_ext *llama_batch_ext_init(llama_context *) { return new llama_batch_ext{0}; }
int32_t llama_batch_ext_add_token(llama_batch_ext *batch, int32_t, int32_t) { return batch->tokens++; }
void llama_batch_ext_clear(llama_batch_ext *batch) { batch->tokens = 0; }
void llama_batch_ext_free(llama_batch_ext *batch) { delete batch; }
#endif
llama_batch llama_batch_init(int32_t, int32_t, int32_t) { return batch_of(0); }
llama_model *llama_get_model(llama_context *context) { return context->model; }
int32_t llama_n_threads(llama_context *) { return 3; }

static llama_model *loaded(const char *path, llama_model_params parameters) {
    if (!is_whole(parameters.rest, sizeof parameters.rest, 9))
        return NULL;
    llama_model *model = new llama_model();
    snprintf(model->path, sizeof model->path, "%s", path);
    return model;
}

llama_context *llama_init_from_model(llama_model *model) { return new llama_context{model, 0}; }
void llama_free(llama_context *context) { delete context; }
#ifdef OLD
llama_model *llama_load_model_from_file(const char *path, llama_model_params parameters) {
    return loaded(path, parameters);
}
void llama_free_model(llama_model *model) { delete model; }
#else
llama_model *llama_model_load_from_file(const char *path, llama_model_params parameters) {
    return loaded(path, parameters);
}
llama_model *llama_model_load_from_splits(const char **paths, size_t count, llama_model_params parameters) {
    return count == 2 ? loaded(paths[0], parameters) : NULL;
}
void llama_model_free(llama_model *model) { delete model; }
#endif
#endif
