/* plugin_host [fork] PLUGIN MODEL RUNS ...: loads plug-ins that keep their libraries to themselves, and runs each;
 * with `fork` in a child, after one run of its own. It says what it finds of runtimes in the global scope. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words) {
    static const char *const names[] = {"OrtGetApiBase", "TfLiteInterpreterInvoke", "LiteRtRunCompiledModel"};
    int forks = count > 1 && !strcmp(words[1], "fork"), failed = 0;
    for (int i = 0; i < 3; i++) {
        dlerror();
        void *found = dlsym(RTLD_DEFAULT, names[i]);
        printf("%s %s %s\n", names[i], found ? "there" : "not there", dlerror() ? "error" : "no error");
    }
    for (int at = 1 + forks; at + 2 < count; at += 3) {
        void *plugin = dlopen(words[at], RTLD_NOW | RTLD_LOCAL);
        int (*run)(const char *, int) = plugin ? (int (*)(const char *, int))dlsym(plugin, "plugin_run") : NULL;
        if (!run) {
            printf("%s\n", dlerror());
            return 3;
        }
        failed |= run(words[at + 1], forks ? 1 : atoi(words[at + 2]));
        fflush(stdout);
        if (forks && !fork())
            _exit(run(words[at + 1], atoi(words[at + 2])));
        int status;
        if (forks && (wait(&status) < 0 || status))
            failed = 1;
    }
    printf("preloaded %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "nothing");
    return failed ? 1 : 7;
}
