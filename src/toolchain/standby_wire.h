/* standby_wire.h: what a worker and a tool that stands by say to each other, see standby.h. Also
 * included by tools/worker/standby.c, which stands alone. */
#ifndef HN_TOOLCHAIN_STANDBY_WIRE_H
#define HN_TOOLCHAIN_STANDBY_WIRE_H

#include <stdint.h>

/* Names that the tool gets for its files; nothing exists there. */
#define HN_STANDBY_INPUT  "/henry-standby/input"
#define HN_STANDBY_OUTPUT "/henry-standby/output"

/* How the tool is started: descriptor 1 is the code to preload, 2 the socket (SOCK_SEQPACKET). */
#define HN_STANDBY_VARIABLE "HENRY_STANDBY_TOOL"
#define HN_STANDBY_PRELOAD  "/proc/self/fd/1"

/* The first word of the tool: initialised, and about to read its input. */
#define HN_STANDBY_HELLO 0x48592101

/* One job. With it travel three descriptors: input, output, messages. */
enum { HN_STANDBY_FILES = 3 };
typedef struct hn_standby_request {
    uint64_t memory_bytes, file_bytes, cpu_seconds; /* limits; 0: none */
} hn_standby_request;

/* Its end. Without one the job has to be done in the ordinary way. */
typedef struct hn_standby_reply {
    int32_t exit_status;
} hn_standby_reply;

#endif
