"""Start a program for `paused_program.py`: fork, enter the program's cgroups, wait for permission, execute the program.

This file runs as a script, in an interpreter without site packages, because its process must be small: the kernel
counts the memory of a process before it executes a program as memory of that program (exec_mmap of fs/exec.c). What
this script uses before it forks counts neither as CPU time nor as I/O of the program.

Arguments: a descriptor to read from, a descriptor to write to, and the numbers of bytes, cgroups and words of the
command in the text to read. The text has, each followed by a NUL, the files `cgroup.procs` of the cgroups, the words of
the command, and the environment variables as NAME=VALUE. The script writes the id of the forked process as a line when
that process is ready, and the number of an error as a line if it fails from then on.
"""

import errno
import os
import signal
import sys

GO = b"g"  # the byte that permits the program to begin
FAILED = 126  # exit status if the program cannot be executed


def main() -> None:
    orders, answers, length, groups, words = map(int, sys.argv[1:6])
    for descriptor in (orders, answers):
        os.set_inheritable(descriptor, False)
    text = b""
    while len(text) < length:
        part = os.read(orders, length - len(text))
        if not part:
            return
        text += part
    fields = text.split(b"\0")[:-1]
    if os.fork():
        os._exit(0)
    try:
        os.setsid()
        for group in fields[:groups]:
            _write(group, b"%d" % os.getpid())
        os.write(answers, b"%d\n" % os.getpid())
        if os.read(orders, 1) == GO:
            command, variables = fields[groups : groups + words], fields[groups + words :]
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # a program would inherit that the interpreter ignores them
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(command[0], command, dict(each.partition(b"=")[::2] for each in variables))  # noqa: S606
    except (OSError, ValueError) as error:  # ValueError for an empty name
        os.write(answers, b"-%d\n" % (getattr(error, "errno", None) or errno.ENOENT))
    os._exit(FAILED)


def _write(path: bytes, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY)
    os.write(file, data)
    os.close(file)


if __name__ == "__main__":
    main()
