/* redis_server.h: a real redis-server for a test: on a socket in a folder of its own, ended with
 * the test. */
#ifndef HN_TESTS_REDIS_SERVER_H
#define HN_TESTS_REDIS_SERVER_H

#include "base/file.h"
#include "base/process.h"
#include "base/trace.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct redis_server {
    pid_t pid; /* 0: not running */
    char dir[PATH_MAX - 64], socket[PATH_MAX], url[PATH_MAX + 64];
} redis_server;

static void pause_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static bool redis_exists(void) { return system("command -v redis-server >/dev/null 2>&1") == 0; }

static bool redis_answers(const redis_server *server) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", server->socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    if (fd >= 0) close(fd);
    return ok;
}

/* Starts the server of `server` (again). `options`: at most four words. It dies with the thread
 * that started it. */
static bool redis_start(redis_server *server, const char *const options[4]) {
    if (!server->dir[0]) {
        hn_status status = hn_dir_temp(server->dir, sizeof(server->dir));
        if (status) {
            hn_status_free(status);
            return false;
        }
        snprintf(server->socket, sizeof(server->socket), "%s/socket", server->dir);
        snprintf(server->url, sizeof(server->url), "unix://%s", server->socket);
    }
    const char *argv[20] = {
        "redis-server", "--port", "0",     "--unixsocket", server->socket, "--save", "",
        "--appendonly", "no",     "--dir", server->dir,    "--daemonize",  "no"};
    for (int i = 0; options && i < 4 && options[i]; i++) argv[13 + i] = options[i];
    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout)) _exit(126);
        execvp(argv[0], (char **)argv);
        _exit(127);
    }
    for (int i = 0; i < 500; i++) {
        if (redis_answers(server)) return true;
        pause_ms(10);
    }
    return false;
}

static void redis_kill(redis_server *server) {
    if (server->pid <= 0) return;
    kill(server->pid, SIGCONT);
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

static void redis_end(redis_server *server) {
    redis_kill(server);
    hn_status status = server->dir[0] ? hn_dir_remove(server->dir) : NULL;
    hn_status_free(status);
    server->dir[0] = 0;
}

#endif
