"""Calls of a project's kernels and operations: libmodel.so by ctypes."""

import ctypes
import os
import subprocess
import sys

from henry.device import Device

_NEVER_SPLIT = 2**63 - 1
_MAX_OPERANDS = 9  # MAX_OPERANDS of the project's support.h


class _ExternFacts(ctypes.Structure):
    """extern_facts of the project's support.h."""

    _fields_ = [("index", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("operands", ctypes.c_uint32),
                ("params", ctypes.c_uint32), ("constants", ctypes.c_uint32), ("types", ctypes.c_uint8 * _MAX_OPERANDS),
                ("where", ctypes.c_char_p), ("form", ctypes.c_char_p)]


class Project:
    """The code of a project in `folder`, which is built with make when it is not yet. Calls raise
    RuntimeError with the project's own message. One thread at a time."""

    def __init__(self, folder, document, threads=0):
        # Messages of a compiler are for people; the output of this process may be data.
        subprocess.run(["make", "-s", "-C", folder, f"-j{os.cpu_count() or 1}", "libmodel.so"], check=True,
                       stdout=sys.stderr)
        self.so = ctypes.CDLL(os.path.join(os.path.abspath(folder), "libmodel.so"))
        self._dtypes = {row["name"]: row["number"] for row in document["dtypes"]}
        self._operations = {row["name"]: row["number"] for row in document["operations"]}
        self.so.model_error.restype = ctypes.c_char_p
        self.model = ctypes.c_void_p()
        message = ctypes.create_string_buffer(600)
        weights = os.path.join(folder, document["weights"]["file"]).encode()
        if self.so.model_open(weights, threads, ctypes.byref(self.model), message, len(message)):
            raise RuntimeError(message.value.decode())
        self.device = Device(self) if hasattr(self.so, "device_launch") else None
        # whose code the GPU runs, among the targets of the project
        self.target = self.so.device_target(self.model) if self.device else 0

    @staticmethod
    def pointers(addresses):
        return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)

    @staticmethod
    def numbers(values):
        return (ctypes.c_int64 * max(len(values), 1))(*values)

    def check(self, failed):
        if failed:
            raise RuntimeError(self.so.model_error(self.model).decode())

    def kernel(self, name, addresses, params, extent, grain, scratch_bytes, where):
        """Runs a kernel over [0, extent) on memory at `addresses` (None: absent)."""
        if extent == 0:
            return
        self.check(self.so.kernel_run(
            self.model, getattr(self.so, name), self.pointers(addresses), self.numbers(params), len(params),
            ctypes.c_int64(extent), ctypes.c_int64(grain if grain > 0 else _NEVER_SPLIT),
            ctypes.c_int64(scratch_bytes or 0), where.encode()))

    def extern_facts(self, index, operation, dtypes, constants, params, where, form=""):
        facts = _ExternFacts(index, self._operations[operation], len(dtypes), len(params),
                             sum(1 << k for k, constant in enumerate(constants) if constant))
        for k, dtype in enumerate(dtypes):
            facts.types[k] = self._dtypes[dtype] if dtype else 0
        facts.where = where.encode()
        facts.form = form.encode()
        return facts

    def extern(self, index, operation, addresses, dtypes, constants, params, where, forms=(), pick=0):
        """Runs an operation: number `index` of the program's, in form number `pick` if there are any. What is
        constant has the same bytes at the same address in each call."""
        facts = self.extern_facts(index, operation, dtypes, constants, params, where, forms[pick] if forms else "")
        self.check(self.so.extern_run(self.model, ctypes.byref(facts), self.pointers(addresses),
                                        self.numbers(params)))

    def close(self):
        if self.model:
            if self.device:
                self.device.close()
            self.so.model_close(self.model)
            self.model = None
