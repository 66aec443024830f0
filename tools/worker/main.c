/* main.c: henry-worker, the process in which a compile service runs its jobs. It is started by
 * Henry. */
#include "service/worker.h"

#include <stdio.h>

int main(int argc, char **argv) {
    int status = hn_worker_main(argc, argv);
    if (status == 2)
        fputs(
            "henry-worker: not started by Henry; this program is a part of its compile service and does "
            "nothing "
            "by itself\n",
            stderr);
    return status;
}
