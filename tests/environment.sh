#!/bin/sh
# Checks that every environment variable that src/ reads stands in the table below, with what keeps it from giving a wrong hit
# of the graph cache: the field of the key that covers it, or why it cannot change a program. Prints the offenders.
cd "$(dirname "$0")/.." || exit 2
covered() {
    case "$1" in
    HENRY_CC | HENRY_CXX | PATH) echo "field 'compiler': the identity of the compilers found with it" ;;
    HENRY_NVRTC | HENRY_NVCC | CUDA_HOME | CUDA_PATH | LD_LIBRARY_PATH) echo "field 'compiler': the identity of the compiler of CUDA that is found with it" ;;
    HENRY_CACHE_DIR | XDG_CACHE_HOME | HOME | HENRY_REDIS_URL) echo "where results are kept" ;;
    HENRY_CUBLASLT | HENRY_CUDNN) echo "which libraries do operations at run time" ;;
    HENRY_TF32) echo "how a library multiplies at run time" ;;
    HENRY_CACHE_TAG) echo "field 'tag'" ;;
    HENRY_FORM) echo "field 'forms'" ;;
    HENRY_THREADS | OMP_NUM_THREADS) echo "how many threads run a program; what it is planned for is field 'threads'" ;;
    HENRY_COMPILE_THREADS | HENRY_WORKER | TMPDIR) echo "who compiles, and where" ;;
    HENRY_STANDBY) echo "how compilers are started; the bytes are the same" ;;
    HENRY_NAMESPACES) echo "how processes of a job are told apart" ;;
    HENRY_CORES_FILE | XDG_RUNTIME_DIR) echo "how many compile at once" ;;
    HENRY_POOL_FILL) echo "what is in memory before a run" ;;
    HENRY_LOG | HENRY_CACHE_CHECK | HENRY_SLOW_JOBS | HENRY_COMPILE_TIMES | HENRY_WORKER_LOG | HENRY_DEBUG_TENSORS | HENRY_METRIC_TABLES | HENRY_METRIC_DIR) echo "what is told and checked" ;;
    esac
}
bad=0
checked=0
# Names that stand in the call. Those of Henry are also in the table of docs/cli.md and in `henry --help`.
for name in $(grep -rho 'getenv("[A-Z_0-9]*")' src | sed 's/.*("\(.*\)")/\1/' | sort -u); do
    checked=$((checked + 1))
    [ "$(covered "$name")" ] || { echo "src/ reads $name, which tests/environment.sh does not know"; bad=$((bad + 1)); }
    case "$name" in HENRY_*) ;; *) continue ;; esac
    for text in docs/cli.md tools/henry/main.c; do
        checked=$((checked + 1))
        grep -qw "$name" $text || { echo "src/ reads $name, which $text does not tell"; bad=$((bad + 1)); }
    done
done
# Calls whose name is computed: these files, each with its table of names.
for file in $(grep -rlE 'getenv\([^"]' src | sort); do
    checked=$((checked + 1))
    case "$file" in
    src/service/job.c | src/toolchain/driver.c | src/toolchain/c_probe.c) ;;
    *) echo "$file reads a variable whose name it computes; tests/environment.sh does not know which"; bad=$((bad + 1)) ;;
    esac
done
# Areas of messages: those that src/ logs under, those of the table in base/log.c, and those that docs/cli.md names.
areas=$(sed -n '/^static const char \*const areas\[\]/,/;/p' src/base/log.c | tr -d '\n",' | sed 's/.*{\(.*\)}.*/\1/')
used=$(find src -name '*.[ch]' -exec cat {} + | tr '\n' ' ' | grep -oE '\b(hn_log|hn_warn_once|hn_log_on|log_always)\( *"[a-z0-9]+"' | sed 's/.*"\(.*\)"/\1/' | sort -u)
for area in $areas; do
    checked=$((checked + 1))
    echo "$used" | grep -qx "$area" || { echo "no message of src/ has the area '$area' of base/log.c"; bad=$((bad + 1)); }
    grep '^| `HENRY_LOG`' docs/cli.md | grep -q "\`$area\`" || { echo "docs/cli.md does not name the area '$area'"; bad=$((bad + 1)); }
done
for area in $used; do
    checked=$((checked + 1))
    case " $areas " in *" $area "*) ;; *) echo "src/ logs under '$area', which base/log.c does not list"; bad=$((bad + 1)) ;; esac
done
# A library writes to standard error in one place, and where the tensor debugger is asked to.
for file in $(grep -rlE '(printf|puts|putc|fwrite)\(.*stderr|STDERR_FILENO|perror\(|psignal\(|write\(2,' --include='*.[ch]' src | sort); do
    checked=$((checked + 1))
    case "$file" in src/base/log_sink.c | src/runtime/debug_files.c) ;; *) echo "$file writes to standard error; use hn_log"; bad=$((bad + 1)) ;; esac
done
# Where messages may be logged under a lock, it is one of base/lock.h, which keeps them until the lock is free.
for file in $(grep -rlE 'pthread_mutex_(lock|trylock|timedlock|unlock)\(' src/service src/cache src/toolchain | sort); do
    checked=$((checked + 1))
    echo "$file takes a lock without base/lock.h"
    bad=$((bad + 1))
done
# A script with the name of a module of Python's own library would be that module for all scripts beside it.
own=$(python3 -c 'import sys; print(" ".join(sys.stdlib_module_names))')
for file in bench/*.py tools/*.py tests/*/*.py; do
    checked=$((checked + 1))
    case " $own " in *" $(basename "$file" .py) "*) echo "$file has the name of a module of Python's library"; bad=$((bad + 1)) ;; esac
done
[ $checked -gt 10 ] || { echo "only $checked places found"; bad=1; }
echo "$((checked - bad)) passed, $bad failed"
[ $bad = 0 ]
