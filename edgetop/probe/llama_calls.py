"""Time the batches of a program that uses llama-cpp-python. The Python hook loads this file when that is imported.

A call of `llama_decode` or `llama_encode` is an inference of its context, and the batch's tokens are the size of its
input. The sequences of the tokens of `llama_decode` are reported as well. The package calls llama.cpp through ctypes.
If the library for C programs is in the process, ctypes finds that library's functions. The calls are then seen there,
and nothing is wrapped here.
"""

import ctypes
import os
import time

MOST_SEQUENCES = 1 << 16  # as in llama_preload.h
NOT_KNOWN = 0, -1, 0, 0  # as a run: no tokens, so it is not known which the batch has
COST_EACH = 16  # measure the cost of one call in 16
MODELS_KEPT = 16  # models whose paths are kept
PRELOADED = "preload"  # part of the name of the library for C programs


def wrap(module, make, like):
    """Wrap the functions of `module`, which is `llama_cpp.llama_cpp`.

    `make(describe, threads, feed)` returns the hook's `_Wrapper` with these parameters. `like(real, timed)` returns
    `timed` with the name of `real`.
    """
    if _is_seen(module):
        return
    timed = _Timed(module, make(_describe, _threads, (1, "batch")))
    for name, how in (
        ("llama_decode", lambda real: timed.batch(real, has_tokens=True)),
        ("llama_encode", timed.batch),
        ("llama_model_load_from_file", timed.load),
        ("llama_load_model_from_file", timed.load),  # until 2025
        ("llama_free", timed.free),
    ):
        real = getattr(module, name, None)
        if real is not None:
            setattr(module, name, like(real, how(real)))


def _is_seen(module):
    """Return True if the library for C programs already times the calls of `module`, so that nothing is wrapped here.

    It does if ctypes has found that library's `llama_decode`, and not llama.cpp's.
    """
    address = ctypes.cast(module._lib.llama_decode, ctypes.c_void_p).value  # noqa: SLF001
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields = line.split(None, 5)
            begin, _, end = fields[0].partition("-")
            if int(begin, 16) <= address < int(end, 16):
                return len(fields) > 5 and PRELOADED in os.path.basename(fields[5])
    return False


def _describe(known):
    """Return a text that describes a context: runtime and path of the model, with TABs between."""
    return f"llama.cpp\t\t\t{known.path}"


def _threads(known, _options):
    return known.threads


class _Context:
    """What is known of a llama.cpp context. The program only has its address."""

    def __init__(self, path):
        """Store the path of the model, "" if unknown."""
        self.path, self.threads = path, -1  # `threads`: for a single token; -1 if unknown
        self._edgetop = None  # notes of the hook


class _Timed:
    """The timed versions of llama.cpp's functions. Each method returns one; `real` is the function of llama.cpp."""

    def __init__(self, module, wrapper):
        self._module, self._wrapper, self._now = module, wrapper, time.monotonic_ns
        self._get_model, self._n_threads = module.llama_get_model, getattr(module, "llama_n_threads", lambda _: -1)
        self._get_memory = getattr(module, "llama_get_memory", None)  # both since 2025
        self._last_position = getattr(module, "llama_memory_seq_pos_max", None) if self._get_memory else None
        self._models = {}  # (path, start and end of loading in ns) by the address of the model
        self._contexts = {}  # by address
        self._freed = {}  # notes about contexts that were freed, by the path of the model: a later one has their name
        self._turn = 0

    def load(self, real):
        now = self._now

        def timed(*args, **options):
            start = now()
            model = real(*args, **options)
            end = now()
            try:
                path = (*args, *options.values())[0]
                while len(self._models) >= MODELS_KEPT:
                    del self._models[next(iter(self._models))]
                self._models[_address(model)] = os.path.abspath(os.fsdecode(path)), start, end
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return model

        return timed

    def free(self, real):
        def timed(*args, **options):
            try:
                known = self._contexts.pop(_address(*args, *options.values()), None)
                if known is not None:
                    self._freed.setdefault(known.path, []).append(known)
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return real(*args, **options)

        return timed

    def batch(self, real, *, has_tokens=False):
        """Return a timed version of `real`, which is `llama_decode` or `llama_encode`.

        `has_tokens` says whether to report the tokens of each batch by sequence.

        A result below 0 says that the inference failed. A result above 0 says that there was none: the cache had no
        room, so that the program may try a smaller batch, or the program's callback ended the batch (include/llama.h).
        """
        now, note = self._now, self._note

        def timed(*args, **options):
            first = self._first_position((*args, *options.values())) if has_tokens else -1
            start = now()
            result = real(*args, **options)
            end = now()
            note((*args, *options.values()), start, end, result, first=first, has_tokens=has_tokens)
            return result

        return timed

    def _first_position(self, values):
        """Return where llama.cpp puts the first token of a batch whose positions the program leaves to it.

        That is after the last position which its cache has of the sequence: the program may have cleared the cache. So
        this must be called before the batch is computed. Returns -1 if the batch has positions or sequences, or if they
        are unknown, as before 2025. `values` are the arguments of `llama_decode`.
        """
        try:
            context, batch = values
            if self._last_position is None or batch.pos or batch.seq_id:
                return -1
            memory = self._get_memory(context)
            return int(self._last_position(memory, 0)) + 1 if memory else -1
        except Exception:  # nothing of this may reach the program
            return -1

    def _note(self, values, start, end, result, *, first, has_tokens):
        """Record a call that returned `result`. `values` are its arguments, and `start` and `end` its times in ns.

        `first` is what `_first_position` returned. `has_tokens` says whether to report the batch's tokens by sequence.
        """
        try:
            if result > 0:
                return
            context, batch = values
            known = self._contexts.get(_address(context)) or self._known(context)
            state = self._wrapper._state(known)  # noqa: SLF001
            if state is None:
                return
            probe, size, flags = self._wrapper._probe, max(0, int(batch.n_tokens)), state.flags  # noqa: SLF001
            state.flags = 0
            if size != state.shapes:
                if state.shapes is not None:
                    flags |= probe.RESHAPED
                state.shapes = size
                state.ring.put(start, end, state.number, probe.SIZE, number=size)
            runs = (_runs(batch, size, first) or [NOT_KNOWN]) if has_tokens and result == 0 else ()
            for sequence, position, count, scores in runs:
                state.ring.put(start, end, state.number, probe.TOKENS, scores, sequence, position + 1, count)
            state.ring.put(start, end, state.number, probe.CALL, 1 if result == 0 else 0, flags)
            self._turn += 1
            if self._turn % COST_EACH == 0:
                self._wrapper.costs(self._now() - end)
        except Exception:  # noqa: S110  nothing of this may reach the program
            pass

    def _known(self, context):
        """Return the notes about a context that is new to this object, and report how long its model took to load."""
        model = _address(self._get_model(context))
        path, start, end = self._models.get(model, ("", 0, 0))
        freed = self._freed.get(path)
        known = freed.pop() if freed else _Context(path)
        known.threads = int(self._n_threads(context))
        self._contexts[_address(context)] = known
        if freed is not None and known._edgetop is not None:  # noqa: SLF001
            known._edgetop.flags, known._edgetop.shapes = self._wrapper._probe.FIRST, None  # noqa: SLF001
        if start:
            self._models[model] = path, 0, 0
            state = self._wrapper._state(known)  # noqa: SLF001
            if state is not None:
                self._wrapper.loaded(state, start, end, known, {})
        return known


def _runs(batch, size, first=-1):
    """Return (sequence, position of the first token, number of tokens, scores) for each run of a sequence in `batch`.

    `batch` has the fields of `struct llama_batch` (include/llama.h) and `size` tokens. `first` is the position of its
    first token if it has no positions. The position is -1 if unknown.
    `scores` is 0 if the last token of the run gets none, 2 if others get scores as well, else 1. Without `seq_id`,
    tokens are of sequence 0, and without `logits`, only the last one gets scores. Returns [] if that cannot be read, or
    if a number is none that llama.cpp takes.
    """
    runs = []
    try:
        ids, positions, logits = batch.seq_id, batch.pos, batch.logits
        for place in range(size):
            sequence, position = ids[place][0] if ids else 0, positions[place] if positions else -1
            if not positions and first >= 0:
                position = first + place
            if not 0 <= sequence < MOST_SEQUENCES or position < -1:
                return []
            last = runs[-1] if runs else None
            if last and last[0] == sequence and (position < 0 or position == last[1] + last[2]):
                last[2] += 1
            else:
                last = [sequence, position, 1, 0, 0]
                runs.append(last)
            if logits[place] if logits else place == size - 1:
                last[3:] = last[3] + 1, last[2]
    except (AttributeError, TypeError, ValueError):
        return []
    return [(run[0], run[1], run[2], 0 if run[4] < run[2] else min(run[3], 2)) for run in runs]


def _address(pointer):
    """Return the address that `pointer` holds. `pointer` is a number, or a ctypes object with a number."""
    return getattr(pointer, "value", pointer)
