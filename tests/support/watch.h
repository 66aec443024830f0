/* watch.h: the work of a test program in a child process. A case that kills its process, never
 * ends or loses the device is one failure: the next child goes on behind it. Drivers have threads,
 * so the parent must not have used a device.
 *
 * The work asks for each item, in an order that is the same in every child, whether to do it, and
 * tells its outcome. An item is a case, or several that are done together; after the end of a child
 * those are done again one by one. */
#ifndef HN_TESTS_WATCH_H
#define HN_TESTS_WATCH_H

#include "henry/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Memory that the parent and its children share. */
typedef struct watch_board {
    uint32_t passed, failed, unsupported;
    uint32_t done;        /* cases with an outcome */
    uint32_t size;        /* cases of the item at work; 0: none is */
    uint32_t alone_until; /* cases before this one are done one by one */
    bool is_lost;         /* the child has given up its device, for another child to go on */
    char item[160];       /* the name of the item at work, for messages */
} watch_board;

/* NULL without memory. It stays until the process ends. */
watch_board *watch_board_create(void);

/* Calls `work` in children until one comes to its end, or in this process if `seconds` is 0. A
 * child is ended when an item takes more than that. False when the work was given up: too many
 * children, or one that ended before its first item; standard error has the reason. */
bool watch_run(watch_board *board, uint32_t seconds, void (*work)(void *user), void *user);

/* An item of `size` cases begins. */
void watch_begin(watch_board *board, uint32_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The item at work is done: adds to the counts what its cases came to. */
void watch_end(watch_board *board, uint32_t passed, uint32_t failed, uint32_t unsupported);

/* If `outcome` says that the device failed, a child cannot go on: this does not return. An item that
 * is at work counts as failed. */
void watch_device(watch_board *board, hn_status outcome);

#endif
