/* LD_PRELOAD, after edgetop's library: fails a call that edgetop's library makes to the C library.
 *
 * FAIL_AT=N fails the Nth of these calls, FAIL_AT=N+ each from the Nth on. At the exit of the program, their number is
 * appended to the file FAIL_COUNT. All other calls are passed on to the kernel or to the C library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int calls;

static int fails(void *caller, int error) {
    Dl_info info;
    const char *at = getenv("FAIL_AT");
    if (!at || !dladdr(caller, &info) || !info.dli_fname || !strstr(info.dli_fname, "ort_preload"))
        return 0;
    calls++;
    if (strchr(at, '+') ? calls < atoi(at) : calls != atoi(at))
        return 0;
    errno = error;
    return 1;
}

#define FAILS(ERROR) fails(__builtin_return_address(0), ERROR)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return FAILS(EMFILE) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int close(int file) {
    int failed = FAILS(EIO); /* the kernel has closed it all the same */
    int result = (int)syscall(SYS_close, file);
    return failed ? -1 : result;
}

int posix_fallocate(int file, off_t at, off_t size) {
    return FAILS(ENOSPC) ? ENOSPC : syscall(SYS_fallocate, file, 0, at, size) ? errno : 0;
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    return FAILS(ENOMEM) ? MAP_FAILED : (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}

int munmap(void *at, size_t size) { return FAILS(ENOMEM) ? -1 : (int)syscall(SYS_munmap, at, size); }

int mprotect(void *at, size_t size, int protection) {
    return FAILS(EACCES) ? -1 : (int)syscall(SYS_mprotect, at, size, protection);
}

int unlink(const char *path) { return FAILS(EACCES) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0); }

int getrlimit(__rlimit_resource_t which, struct rlimit *limit) {
    return FAILS(EPERM) ? -1 : (int)syscall(SYS_prlimit64, 0, which, NULL, limit);
}

void *malloc(size_t size) { return FAILS(ENOMEM) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) { return FAILS(ENOMEM) ? NULL : __libc_calloc(count, size); }

char *strdup(const char *text) {
    char *copy = FAILS(ENOMEM) ? NULL : __libc_malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

__attribute__((destructor)) static void end(void) {
    char text[32];
    const char *path = getenv("FAIL_COUNT");
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (file >= 0) {
        int length = snprintf(text, sizeof text, "%d\n", calls);
        syscall(SYS_write, file, text, length);
        syscall(SYS_close, file);
    }
}
