/* Preloaded into a process: now and then a call that brings data to the disk takes long, as on a disk that hiccups.
 *
 * STALL_EVERY_MS  milliseconds between two stalls, at least
 * STALL_MS        how long each takes
 * STALLS          a file that grows by a byte with each
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_llong next_ms;

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static long long number(const char *name) {
    const char *text = getenv(name);
    return text ? atoll(text) : 0;
}

static void count(void) {
    const char *path = getenv("STALLS");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file >= 0) {
        ssize_t written = write(file, "x", 1);
        (void)written;
        close(file);
    }
}

static void stall(void) {
    long long now = now_ms(), due = atomic_load(&next_ms);
    /* One caller takes the stall that is due; the others are not held up by it. */
    if (now < due || !atomic_compare_exchange_strong(&next_ms, &due, now + number("STALL_EVERY_MS"))) {
        return;
    }
    long long ms = number("STALL_MS");
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&rest, NULL);
    count();
}

int fdatasync(int file) {
    stall();
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return real(file);
}

int fsync(int file) {
    stall();
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    return real(file);
}
