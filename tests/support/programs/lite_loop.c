/* A C program on the C API of TensorFlow Lite: lite_loop MODEL [LIBRARY]. Without LIBRARY it is linked with it.
 *
 * Built with -DLIBRARY it is that library: a stand-in for libtensorflowlite_c, which no package brings, whose eighth
 * inference fails. The program maps the model, as the real one does, and counts 25 calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef LIBRARY
int TfLiteInterpreterInvoke(void *interpreter) {
    static int calls;
    usleep(1000);
    return interpreter && calls++ == 7;
}
#else
#ifdef LINKED
int TfLiteInterpreterInvoke(void *);
#endif

int main(int argc, char **argv) {
    mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(argv[1], O_RDONLY), 0);
#ifdef LINKED
    int (*invoke)(void *) = TfLiteInterpreterInvoke;
#else
    int (*invoke)(void *) = (int (*)(void *))dlsym(dlopen(argv[2], RTLD_NOW), "TfLiteInterpreterInvoke");
#endif
    for (int i = 0; i < 25; i++)
        if (invoke(argv) != (i == 7))
            return 3;
    return argc < 2 || dlsym(RTLD_DEFAULT, "LiteRtRunCompiledModel"); /* which is nowhere, though the shim has one */
}
#endif
