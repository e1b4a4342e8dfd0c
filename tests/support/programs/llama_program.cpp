/* llama_program MODEL OTHER: computes batches of two models in all ways. -DLOADS="PATH" loads the library with dlopen(3).
 * As a shared library, it is a plug-in for plugin_host.c. With -DFOREIGN, it calls that llama_decode. */
#include "llama_library.h"
#include <dlfcn.h>
#include <stdexcept>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#ifdef FOREIGN
int main() {
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += llama_decode(0.5, 1, "four", 2, 3, i, 5, 1L << 40, 0.25);
    printf("%.2f\n", sum);
    return 7;
}
#else
#define TEXT(name) #name
#define NAME(name) TEXT(name) /* after the names of 2024 have been put in */
#ifdef LOADS
static void *library = dlopen(LOADS, RTLD_NOW | RTLD_LOCAL);
#define CALL(name) ((decltype(&name))dlsym(library, NAME(name)))
#else
#define CALL(name) name
#endif

static int decode(llama_context *context, int tokens) { return CALL(llama_decode)(context, batch_of(tokens)); }

extern "C" int plugin_run(const char *path, int runs) {
    llama_model *model = CALL(llama_model_load_from_file)(path, parameters());
    llama_context *context = CALL(llama_init_from_model)(model);
    int failed = 0;
    for (int i = 0; i < runs; i++)
        failed |= decode(context, 1);
    CALL(llama_free)(context);
    CALL(llama_model_free)(model);
    return failed;
}

static llama_context *at_top;
static llama_batch batch_at_top;
static int result_at_top;
static auto decode_at_top = CALL(llama_decode);
static void calls_at_top() { result_at_top = decode_at_top(at_top, batch_at_top); }

/* Compute a batch in a context (makecontext(3)) whose caller's frame ends where nothing may be read. */
static int decode_at_top_of_stack(llama_context *context) {
    const size_t size = 1 << 18, page = (size_t)sysconf(_SC_PAGESIZE);
    char *stack = (char *)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(stack + size - page, page, PROT_NONE);
    ucontext_t here, there;
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = size - page;
    there.uc_link = &here;
    at_top = context;
    batch_at_top = batch_of(2);
    makecontext(&there, calls_at_top, 0);
    swapcontext(&here, &there);
    munmap(stack, size);
    return result_at_top;
}

int main(int, char **words) {
    llama_model *model = CALL(llama_model_load_from_file)(words[1], parameters());
    llama_model *other = CALL(llama_model_load_from_file)(words[2], parameters());
    if (!model || !other)
        return 1;
    llama_context *first = CALL(llama_init_from_model)(model), *second = CALL(llama_init_from_model)(other);
    llama_context *third = CALL(llama_init_from_model)(other);
    int failed = 0;
    for (int tokens : {40, 1, 1, 1, 8, 1}) /* first: 6 */
        failed |= decode(first, tokens);
    failed |= CALL(llama_encode)(first, batch_of(1)); /* 7 */
    failed |= decode_at_top_of_stack(first);          /* 8 */
    int room = decode(first, NO_ROOM), aborted = decode(first, ABORTED), invalid = decode(first, INVALID), thrown = 0;
    try { /* first: 2 that failed */
        decode(first, THROWS);
    } catch (const std::runtime_error &) {
        thrown = 1;
    }
    failed |= decode(second, 5) | decode(third, 5) | decode(third, 5); /* second: 1, third: 2 */
    failed |= decode(third, NESTS);                                    /* third: 3 or 4 */
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            llama_context *own = CALL(llama_init_from_model)(model);
            for (int k = 0; k < 100; k++)
                if (decode(own, 1 + k % 3))
                    abort();
            CALL(llama_free)(own);
        });
    for (std::thread &each : threads)
        each.join();
    CALL(llama_free)(first);
    first = CALL(llama_init_from_model)(model); /* has the name again */
    failed |= decode(first, 1);
#ifndef OLD
    llama_batch_ext *filled = CALL(llama_batch_ext_init)(first), *other_one = CALL(llama_batch_ext_init)(first);
    for (int tokens : {6, 2}) { /* first: 2 */
        for (int i = 0; i < tokens; i++)
            failed |= CALL(llama_batch_ext_add_token)(filled, 0, i) != i;
        CALL(llama_batch_ext_add_token)(other_one, 0, 1);
        failed |= CALL(llama_process)(first, 1, filled);
        CALL(llama_batch_ext_clear)(filled);
    }
    CALL(llama_batch_ext_free)(filled);
    CALL(llama_batch_ext_free)(other_one);
#endif
    fflush(stdout);
    if (!fork())
        _exit(decode(first, 1) | decode(first, 1));
    int status;
    failed |= wait(&status) < 0 || status;
    printf("%d %d %d %d %d\n", failed, room, aborted, invalid, thrown);
    return failed ? 1 : 7;
}
#endif
