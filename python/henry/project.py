"""Calls of a project's kernels and operations: libmodel.so by ctypes."""

import ctypes
import os
import subprocess
import sys

_NEVER_SPLIT = 2**63 - 1
_MAX_OPERANDS = 9  # MAX_OPERANDS of the project's support.h


class _ExternFacts(ctypes.Structure):
    """extern_facts of the project's support.h."""

    _fields_ = [("index", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("operands", ctypes.c_uint32),
                ("params", ctypes.c_uint32), ("constants", ctypes.c_uint32), ("types", ctypes.c_uint8 * _MAX_OPERANDS),
                ("where", ctypes.c_char_p)]


def _pointers(addresses):
    return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)


def _numbers(values):
    return (ctypes.c_int64 * max(len(values), 1))(*values)


class Project:
    """The code of a project in `folder`, which is built with make when it is not yet. Calls raise
    RuntimeError with the project's own message. One thread at a time."""

    def __init__(self, folder, document, threads=0):
        # Messages of a compiler are for people; the output of this process may be data.
        subprocess.run(["make", "-s", "-C", folder, f"-j{os.cpu_count() or 1}", "libmodel.so"], check=True,
                       stdout=sys.stderr)
        self._so = ctypes.CDLL(os.path.join(os.path.abspath(folder), "libmodel.so"))
        self._dtypes = {row["name"]: row["number"] for row in document["dtypes"]}
        self._operations = {row["name"]: row["number"] for row in document["operations"]}
        self._so.model_error.restype = ctypes.c_char_p
        self._model = ctypes.c_void_p()
        message = ctypes.create_string_buffer(600)
        weights = os.path.join(folder, document["weights"]["file"]).encode()
        if self._so.model_open(weights, threads, ctypes.byref(self._model), message, len(message)):
            raise RuntimeError(message.value.decode())

    def _check(self, failed):
        if failed:
            raise RuntimeError(self._so.model_error(self._model).decode())

    def kernel(self, name, addresses, params, extent, grain, scratch_bytes, where):
        """Runs a kernel over [0, extent) on memory at `addresses` (None: absent)."""
        if extent == 0:
            return
        self._check(self._so.kernel_run(
            self._model, getattr(self._so, name), _pointers(addresses), _numbers(params), len(params),
            ctypes.c_int64(extent), ctypes.c_int64(grain if grain > 0 else _NEVER_SPLIT),
            ctypes.c_int64(scratch_bytes or 0), where.encode()))

    def extern(self, index, operation, addresses, dtypes, constants, params, where):
        """Runs an operation: number `index` of the program's. What is constant has the same bytes at the same
        address in each call."""
        facts = _ExternFacts(index, self._operations[operation], len(addresses), len(params),
                             sum(1 << k for k, constant in enumerate(constants) if constant))
        for k, dtype in enumerate(dtypes):
            facts.types[k] = self._dtypes[dtype] if dtype else 0
        facts.where = where.encode()
        self._check(self._so.extern_run(self._model, ctypes.byref(facts), _pointers(addresses),
                                        _numbers(params)))

    def close(self):
        if self._model:
            self._so.model_close(self._model)
            self._model = None
