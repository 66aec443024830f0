"""What a call of a compiled function costs from Python: through the generated binding and through ctypes.

    python3 bench/python_calls.py [BUILD]        BUILD: the build folder with the program henry; default: build

The function does next to nothing, so the time is the call's. Both ways call the same text compiled with the same flags;
they take turns, the figure is the median over rounds of the mean of a round."""
import ctypes, os, statistics, subprocess, sys, tempfile, time

TEXT = """
extern "C" void touch(float *p, float *q, long n, float x) { if (n) p[0] = q[0] + x; }
extern "C" long count(long n) { return n + 1; }
"""
ENTRIES = ["void touch(ptr, ptr, i64, f32)", "i64 count(i64)"]
ROUNDS, CALLS = 15, 50000


def compile_both(henry, folder):
    source = os.path.join(folder, "calls.cc")
    with open(source, "w") as file:
        file.write(TEXT)
    base = [henry, "kernel", "compile", source, "--flag=-O2"]
    entries = [word for entry in ENTRIES for word in ("--entry", entry)]
    subprocess.run(base + ["--language", "python"] + entries, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(base + ["-o", os.path.join(folder, "plain.so")], check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, folder)
    import calls
    plain = ctypes.CDLL(os.path.join(folder, "plain.so"))
    plain.touch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_float]
    plain.touch.restype = None
    plain.count.argtypes = [ctypes.c_long]
    plain.count.restype = ctypes.c_long
    return calls, plain


def ns_of(function, arguments):
    repeat = range(CALLS)
    begin = time.perf_counter_ns()
    for _ in repeat:
        function(*arguments)
    return (time.perf_counter_ns() - begin) / CALLS


def main():
    henry = os.path.join(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build"), "henry")
    with tempfile.TemporaryDirectory() as folder:
        calls, plain = compile_both(henry, folder)
        a = (ctypes.c_float * 4)(1, 2, 3, 4)
        address = ctypes.addressof(a)
        cases = [("touch(ptr, ptr, i64, f32)", "touch", (address, address, 0, 1.5)), ("count(i64)", "count", (7,))]
        assert calls.count(7) == plain.count(7) == 8
        print(f"Python {sys.version.split()[0]}, ns a call   binding    ctypes     ratio")
        for title, name, arguments in cases:
            ways = {"binding": getattr(calls, name), "ctypes": getattr(plain, name)}
            times = {way: [] for way in ways}
            for _ in range(ROUNDS):
                for way, function in ways.items():
                    times[way].append(ns_of(function, arguments))
            binding, other = statistics.median(times["binding"]), statistics.median(times["ctypes"])
            print(f"{title:28} {binding:9.0f} {other:9.0f} {other / binding:9.2f}")


main()
