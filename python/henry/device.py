"""A device's memory and calls, by libmodel.so of a project that was written for one: it finds the driver (libcuda.so.1)
when it is opened. Everything is done when a function returns."""

import ctypes

from henry.run import taken


# The function of Device that copies, by whether the device has what is written, and what is read.
MOVES = {(True, False): "copy_in", (False, True): "copy_out", (True, True): "copy"}


class _Raw(ctypes.Structure):
    """memory of the project's support.h."""

    _fields_ = [("bytes", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class _LaunchFacts(ctypes.Structure):
    """launch_facts of the project's support.h."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("step", "kernel", "args", "params", "threads", "shared_bytes")]
    _fields_ += [("where", ctypes.c_char_p)]


class Memory:
    """Bytes of the device, which end with this object."""

    def __init__(self, device, count):
        self.device, self.count, self.raw = device, max(count, 0), _Raw()
        device.reserve(self)

    @property
    def address(self):
        return self.raw.bytes

    def __del__(self):
        self.device.release(self)


class Array:
    """A tensor in memory of the device, from byte `at` on; strides in elements of `item_bytes`."""

    def __init__(self, memory, dtype, item_bytes, sizes, strides, at=0):
        self.memory, self.dtype, self.item_bytes, self.at = memory, dtype, item_bytes, at
        self.sizes, self.strides = tuple(sizes), tuple(strides)

    @property
    def address(self):
        return self.memory.address + self.at

    @property
    def room(self):
        """Bytes from its beginning to the end of the memory."""
        return self.memory.count - self.at

    @property
    def extent(self):
        """Bytes from its first element to its last one."""
        if any(size <= 0 for size in self.sizes):
            return 0
        return (1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides))) * self.item_bytes

    def view(self, dtype, item_bytes, sizes, strides, offset):
        return Array(self.memory, dtype, item_bytes, sizes, strides, self.at + offset * item_bytes)


class Device:
    """Of an open project. One thread at a time."""

    def __init__(self, project):
        self.project, self.live = project, {}  # memory by address of what describes it
        self.call("device_enter")

    def call(self, function, *args):
        self.project.check(getattr(self.project.so, function)(self.project.model, *args))

    def reserve(self, memory):
        self.call("device_reserve", ctypes.byref(memory.raw), ctypes.c_int64(memory.count))
        self.live[ctypes.addressof(memory.raw)] = memory.raw

    def release(self, memory):
        raw = self.live.pop(ctypes.addressof(memory.raw), None)
        if raw is not None:
            self.call("device_release", ctypes.byref(raw))

    def wait(self):
        self.call("device_wait")

    def _move(self, function, to, source, count):
        if count > 0:
            self.call(function, ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_int64(count))
            self.wait()

    def copy_in(self, to, source, count):
        self._move("device_copy_in", to, source, count)

    def copy_out(self, to, source, count):
        self._move("device_copy_out", to, source, count)

    def copy(self, to, source, count):
        self._move("device_copy", to, source, count)

    def zero(self, array):
        self.call("device_zero", ctypes.c_void_p(array.address), ctypes.c_int64(array.room))

    def launch(self, step, variant, launches, operands, scratch, where):
        """The kernel of this variant on operands that are addresses (None: absent)."""
        kernel, _, takes, params, groups, threads, shared_bytes = launches[variant]
        args = taken(tuple(operands), takes)
        facts = _LaunchFacts(step, kernel, len(args), len(params), threads, shared_bytes, where.encode())
        self.keep(facts)
        self.call("device_launch", ctypes.byref(facts), self.project.pointers(args), self.project.numbers(params),
                  ctypes.c_int64(groups), ctypes.c_void_p(scratch))
        self.wait()

    def operation(self, index, operation, operands, dtypes, params, step, launch, scratch, where, forms, pick):
        """By a library, in form number `pick` if there are any, or by the kernel where none does it."""
        facts = self.project.extern_facts(index, operation, dtypes, (), params, where, forms[pick] if forms else "")
        self.keep(facts)
        for_kernel = ctypes.c_bool(False)
        self.call("device_operation", ctypes.byref(facts), self.project.pointers(operands), self.project.numbers(params),
                  ctypes.byref(for_kernel) if launch else None)
        if for_kernel:
            self.launch(step, 0, (launch,), operands, scratch, where)
        else:
            self.wait()

    def keep(self, facts):
        """The text that they point to: the project quotes it when a later wait fails."""
        self.kept = facts

    def close(self):
        while self.live:
            self.call("device_release", ctypes.byref(self.live.popitem()[1]))
        self.project.so.device_leave(self.project.model)
