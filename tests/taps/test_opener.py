"""What the program with the privilege grants, and what it refuses to whoever holds its socket.

These run where the process may set uprobes, as root may.
"""

import ast
import contextlib
import ctypes
import errno
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.taps import opener, perf
from edgetop.taps.elf import Elf
from edgetop.taps.perf import Opener, Place, target_of
from tests.support.waiting import PATIENCE_S, wait_until

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(perf.why_not()) or not perf.may_set(), reason="needs a kernel with uprobes, and root"),
]


class Opening:
    """An opener for the processes of one user, and its socket."""

    def __init__(self, owner, **settings):
        self.link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(PATIENCE_S)
        words = [sys.executable, "-I", "-S", "-B", opener.__file__, str(owner)]
        self.process = subprocess.Popen(words, stdin=other.fileno(), env=settings.pop("env", {}), **settings)
        other.close()
        self.client = Opener(self.link)

    def says(self, target, tid=None, place=None):
        """Why an event is refused; "": it is granted."""
        try:
            os.close(self.client.open(target, tid or target.pid, 0, place))
        except OSError as error:
            return error.strerror
        return ""


@pytest.fixture
def opening():
    made = []

    def start(owner=NOBODY, **settings):
        made.append(Opening(owner, **settings))
        return made[-1]

    yield start
    for one in made:
        one.link.close()
        one.process.wait(PATIENCE_S)


@pytest.fixture
def sleeper():
    """Starts a process of a user that sleeps, with the words of setpriv(1) or unshare(1) before."""
    started = []

    def start(*words):
        process = subprocess.Popen([*(words or AS_NOBODY), "sleep", "100"])
        started.append(process)
        wait_until(lambda: b"sleep" in Path(f"/proc/{process.pid}/comm").read_bytes())
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def libc():
    """The C library's path, and the offset of a function."""
    line = next(line for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    path = line.split()[-1]
    with Path(path).open("rb") as file:
        return path, Elf(file.fileno()).symbols(("getpid",))["getpid"]


@pytest.fixture
def place(libc):
    library = os.open(libc[0], os.O_RDONLY)
    yield Place(1, library, libc[1])
    os.close(library)


def moved(place, by):
    return Place(place.probe, place.library, place.offset + by, place.at_return)


def test_the_begin_of_a_function_of_an_own_process_is_granted(opening, sleeper, place):
    one, process = opening(), sleeper()
    target = target_of(process.pid)
    assert (one.says(target), one.says(target, place=place)) == ("", "")
    assert one.says(target, place=Place(1, place.library, place.offset, at_return=True)) == ""


def test_no_place_but_the_begin_of_a_function_is_granted(opening, sleeper, place):
    """In the middle of an instruction, a breakpoint would change what a program does: of root, after exec, too."""
    one, target = opening(), target_of(sleeper().pid)
    for by in (1, 2, 3, 5):
        assert one.says(target, place=moved(place, by)) == "no function begins at that place"
    for offset in (0, 2**61, 2**63):
        assert one.says(target, place=Place(1, place.library, offset)) in (
            "not a request", "the process has not mapped this place of the file as code",
        )  # fmt: skip


def test_no_return_is_granted_where_no_call_leads(opening, sleeper):
    """A return probe overwrites where a call leaves its return address: at a program's entry, that is argc."""
    one, target = opening(), target_of(sleeper().pid)
    file = os.open(f"/proc/{target.pid}/exe", os.O_RDONLY)
    elf = Elf(file)
    entry = elf.offset(int.from_bytes(os.pread(file, 8, 24), "little"))
    assert entry is not None
    assert one.says(target, place=Place(1, file, entry)) == ""
    assert one.says(target, place=Place(1, file, entry, at_return=True)) == "no call leads to that place"
    os.close(file)


def test_the_breakpoint_is_in_that_process_alone(opening, sleeper, place, libc):
    one, watched, other = opening(), sleeper(), sleeper()
    event = one.client.open(target_of(watched.pid), watched.pid, 0, place)
    codes = [code_at(process.pid, *libc) for process in (watched, other)]
    os.close(event)
    assert codes[0] != codes[1]
    assert codes[1] == code_at(os.getpid(), *libc)
    wait_until(lambda: code_at(watched.pid, *libc) == codes[1])


def code_at(pid, path, offset):
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        begin, end, at = (int(text, 16) for text in (*line.split()[0].split("-"), line.split()[2]))
        if line.endswith(path) and "x" in line.split()[1] and at <= offset < at + end - begin:
            with Path(f"/proc/{pid}/mem").open("rb") as memory:
                memory.seek(begin + offset - at)
                return memory.read(4)
    raise AssertionError(path)


def test_processes_of_others_are_refused(opening, sleeper, place):
    one = opening()
    for words, why in (
        (("env",), "the process does not belong to user 65534 alone"),  # root's
        (
            ("setpriv", "--reuid=1234", "--regid=1234", "--clear-groups"),
            "the process does not belong to user 65534 alone",
        ),
        (
            ("setpriv", f"--ruid={NOBODY}", "--clear-groups"),
            "the process does not belong to user 65534 alone",
        ),  # setuid root
        ((*AS_NOBODY, "--inh-caps=+chown", "--ambient-caps=+chown"), "the process has more rights than its user"),
        (("unshare", "--mount", *AS_NOBODY), "the process is in a container, or in another mount namespace"),
        (("unshare", "--user", "--map-root-user"), "the process does not belong to user 65534 alone"),
    ):
        target = target_of(sleeper(*words).pid)
        assert one.says(target, place=place) == why
        assert one.says(target) == why


def test_a_container_of_root_is_refused_to_root(opening, sleeper, place):
    one = opening(0)
    for words in (("unshare", "--mount"), ("unshare", "--user", "--map-root-user")):
        why = one.says(target_of(sleeper(*words).pid), place=place)
        assert why == "the process is in a container, or in another mount namespace"


def test_another_process_of_the_same_number_is_refused(opening, sleeper, place):
    one, target = opening(), target_of(sleeper().pid)
    later = perf.Target(target.pid, target.pidfd, target.since + 1)
    assert one.says(later, place=place) == "another process now has that number"


def test_a_process_that_has_ended_is_refused(opening, sleeper, place):
    one, process = opening(), sleeper()
    target = target_of(process.pid)
    process.kill()
    process.wait()
    assert one.says(target, place=place) in ("the process has ended", os.strerror(errno.ESRCH))


def test_a_thread_of_another_process_is_refused(opening, sleeper, place):
    one, target = opening(), target_of(sleeper().pid)
    assert one.says(target, tid=os.getpid(), place=place) == os.strerror(errno.ENOENT)


def test_a_file_that_is_not_the_mapped_one_is_refused(opening, sleeper, place, libc, tmp_path):
    one, target = opening(), target_of(sleeper().pid)
    copy = tmp_path / "libc.so.6"  # the same bytes and another file
    copy.write_bytes(Path(libc[0]).read_bytes())
    os.mkfifo(tmp_path / "fifo")
    others = [os.open(path, os.O_RDWR) for path in (copy, "/dev/null", tmp_path / "fifo")]
    said = [one.says(target, place=Place(1, file, libc[1])) for file in others]
    assert said == ["the process has not mapped this place of the file as code", "not a file", "not a file"]
    for file in others:
        os.close(file)


def test_mappings_are_read_once_a_second_for_each_program_and_place(place, monkeypatch):
    """A process of 1,500 threads has thousands of mappings, and there is a request for each thread on each CPU."""
    again = "os.execv(sys.executable, [sys.executable, '-c', 'print(flush=True); input()'])"
    script = f"import os, sys\nprint(flush=True)\ninput()\n{again}"
    words = [sys.executable, "-c", script]
    running = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        running.stdout.readline()
        target, read = target_of(running.pid), []
        process = opener.Process(target.pidfd, os.getuid(), target.since, ())
        monkeypatch.setattr(opener, "mapped", {})
        whole = opener.is_mapped
        monkeypatch.setattr(opener, "is_mapped", lambda *given: read.append(given) or whole(*given))
        library = os.fstat(place.library)

        def look(offset=place.offset):
            process.check_mapped(library, offset)
            return len(read)

        assert [look(), look(), look(place.offset + 1), look()] == [1, 1, 2, 2]
        for _ in range(2):  # what is refused is looked at each time
            with pytest.raises(opener.RefusedError):
                look(2**61)
        assert len(read) == 4
        opener.mapped.update({one: since - opener.CHECKED_S for one, since in opener.mapped.items()})
        assert [look(), look()] == [5, 5]
        running.stdin.write(b"\n")
        running.stdin.flush()
        running.stdout.readline()
        assert [look(), look()] == [6, 6]  # another program of the same process
        for more in range(2 * opener.MOST_PROBES):
            look(place.offset + more)
        assert len(opener.mapped) <= opener.MOST_PROBES
    finally:
        running.kill()
        running.communicate()


def test_a_program_that_is_executed_meanwhile_is_noticed(opening, sleeper, place):
    """The owner's process becomes root's, as by a setuid program: its number and begin stay."""
    one = opening()
    script = f"import os\nos.setresuid({NOBODY}, {NOBODY}, 0)\ninput()\nos.setresuid(0, 0, 0)\ninput()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    try:
        wait_until(lambda: f"\t{NOBODY}\t{NOBODY}\t0" in Path(f"/proc/{process.pid}/status").read_text())
        assert one.says(target_of(process.pid), place=place) == "the process does not belong to user 65534 alone"
    finally:
        process.kill()
        process.communicate()


def test_garbage_is_answered_and_nothing_is_left_open(opening, sleeper, place):
    one, target = opening(), target_of(sleeper().pid)
    assert one.says(target, place=place) == ""
    for message, given in 5 * (
        (b"x", []),
        (b"y" * 100_000, []),
        (bytes(opener.REQUEST.size), []),
        (opener.REQUEST.pack(9, 1, 0, 0, 0, 0), [target.pidfd]),
        (opener.REQUEST.pack(1, 1, 0, 0, 0, 2**31), [target.pidfd, place.library]),
        (opener.REQUEST.pack(1, -1, -1, 0, 0, 0), [target.pidfd, place.library]),
        (opener.REQUEST.pack(1, target.pid, 0, target.since, place.offset, 0), [place.library] * 200),
        (opener.REQUEST.pack(1, target.pid, 0, target.since, place.offset, 0), [place.library, place.library]),
        (opener.REQUEST.pack(1, target.pid, 0, target.since, place.offset, 0), [target.pidfd]),
    ):
        socket.send_fds(one.link, [message], given)
        said, fds, _, _ = socket.recv_fds(one.link, 4096, 1)
        assert (bool(said), fds) == (True, [])
    wait_until(
        lambda: len([*Path(f"/proc/{one.process.pid}/fd").iterdir()]) < 10
    )  # of 45 messages with 1,000 descriptors
    assert one.says(target, place=place) == ""


def test_it_has_the_rights_that_it_needs_and_no_other(opening, sleeper):
    one = opening()
    assert one.says(target_of(sleeper().pid)) == ""  # it has begun
    fields = dict(line.split(":\t") for line in Path(f"/proc/{one.process.pid}/status").read_text().splitlines())
    has = {number for number in range(64) if int(fields["CapPrm"], 16) >> number & 1}
    assert has == {opener.SEARCH, opener.SYS_PTRACE, opener.SYS_ADMIN, opener.PERFMON}
    assert fields["NoNewPrivs"] == "1"
    assert Path(f"/proc/{one.process.pid}/environ").read_bytes() == b""


def test_nothing_of_the_folder_or_the_environment_is_imported(opening, sleeper, tmp_path):
    for name in ("array", "ctypes", "socket", "struct", "sitecustomize", "usercustomize", "contextlib"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})")
    hostile = {"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "array.py"), "PYTHONHOME": str(tmp_path)}
    one = opening(cwd=tmp_path, env=hostile)
    assert one.says(target_of(sleeper().pid)) == ""
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("way", ["closed", "killed"])
def test_nothing_is_left_when_it_ends(opening, sleeper, place, libc, way):
    one, process = opening(), sleeper()
    event = one.client.open(target_of(process.pid), process.pid, 0, place)
    if way == "closed":
        os.close(event)
        one.link.close()
        one.process.wait(PATIENCE_S)
    else:
        one.process.send_signal(signal.SIGKILL)
        one.process.wait(PATIENCE_S)
        os.close(event)
        following = opening()  # removes what the one before could not
        assert following.says(target_of(process.pid)) == ""
    wait_until(lambda: code_at(process.pid, *libc) == code_at(os.getpid(), *libc))
    assert not [line for line in uprobes() if f"/e{one.process.pid}_" in line]


def uprobes():
    """The kernel's list, in a mount namespace of its own where it is not mounted."""
    script = "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; cat /sys/kernel/tracing/uprobe_events"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_it_ends_with_edgetop_though_its_socket_is_held(opening, sleeper):
    """The reader holds the socket, and its owner may stop the reader for ever."""
    ours, other = socket.socketpair()
    one = opening(stdout=other)
    other.close()
    assert one.says(target_of(sleeper().pid)) == ""
    ours.close()
    assert one.process.wait(PATIENCE_S) == 0


def test_a_fork_of_the_process_inherits_its_events(opening, place, libc):
    """A thread whose parent has an event could not begin if the kernel refused the event to it."""
    one = opening(0)
    own = ctypes.CDLL(None)
    event = one.client.open(target_of(os.getpid()), os.getpid(), 0, place)
    with contextlib.closing(os.fdopen(event, "rb", closefd=True)):
        assert own.getpid() == os.getpid()
        pid = os.fork()
        if not pid:
            os._exit(ctypes.CDLL(None).getpid() & 63)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == pid & 63


def test_the_program_stays_small():
    source = Path(opener.__file__).read_text()
    imported = set(re.findall(r"^import (\w+)", source, re.MULTILINE))
    assert imported <= set(sys.stdlib_module_names)
    assert not re.findall(r"^from ", source, re.MULTILINE)
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            del node.body[0]
    assert len(ast.unparse(tree).split("\n")) < 300
