/* Preloaded into a process: makes one write to a folder fail, and notes what was synced.

   arm(folder, n, error)   the n-th write below `folder` from now on fails with `error`, once
   disarm()                how many writes there were since
   synced(name)            size of the file called `name` when it was last synced; -1 if never
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[4096];
static long count, failing;
static int error_number;
static struct { char path[4096]; long size; } notes[64];

void arm(const char *where, long n, int error) {
    strncpy(folder, where, sizeof folder - 1);
    count = 0, failing = n, error_number = error;
}

long disarm(void) {
    folder[0] = 0;
    return count;
}

static int path_of(int file, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, 4095);
    path[size < 0 ? 0 : size] = 0;
    return folder[0] && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_to_fail(int file) {
    char path[4096];
    if (!path_of(file, path) || ++count != failing) return 0;
    errno = error_number;
    return 1;
}

static void note_sync(int file) {
    char path[4096];
    struct stat now;
    if (!path_of(file, path) || fstat(file, &now)) return;
    for (int i = 0; i < 64; i++)
        if (!notes[i].path[0] || !strcmp(notes[i].path, path)) {
            strcpy(notes[i].path, path);
            notes[i].size = now.st_size;
            return;
        }
}

long synced(const char *path) {
    for (int i = 0; i < 64; i++)
        if (!strcmp(notes[i].path, path)) return notes[i].size;
    return -1;
}

#define REAL(name) __typeof__(name) *real = dlsym(RTLD_NEXT, #name)
#define WRITER(name, offset) \
    ssize_t name(int file, const void *data, size_t size, offset at) { \
        REAL(name); \
        return is_to_fail(file) ? -1 : real(file, data, size, at); \
    }
#define SYNC(name) \
    int name(int file) { \
        REAL(name); \
        if (is_to_fail(file)) return -1; \
        int result = real(file); \
        if (!result) note_sync(file); \
        return result; \
    }
#define CUT(name, offset) \
    int name(int file, offset size) { \
        REAL(name); \
        return is_to_fail(file) ? -1 : real(file, size); \
    }

WRITER(pwrite, off_t)
WRITER(pwrite64, off64_t)
SYNC(fsync)
SYNC(fdatasync)
CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)

ssize_t write(int file, const void *data, size_t size) {
    REAL(write);
    return is_to_fail(file) ? -1 : real(file, data, size);
}
