# ---- what happens to the program if gdb is killed

# gdb stops threads, and adopts the threads that they create, by SIGSTOP. If gdb is killed before it has removed such a signal, the signal
# stays, and the kernel stops the whole process. A program that gdb has launched is killed with gdb: gdb requests that from the kernel
# (PTRACE_O_EXITKILL), but not for a program that it has attached to.

PTRACE_SETOPTIONS, PTRACE_O_EXITKILL = 0x4200, 1 << 20
# The options that gdb itself sets: report system calls, forks, vforks, clones, execs and the ends of vforks.
PTRACE_OPTIONS_OF_GDB = 0x3f


class Keeper:
    """A process that waits for gdb's end, and then continues the program if gdb has left it stopped.

    It reads from a pipe whose other end only gdb has open: the kernel closes that end when gdb is killed. For some seconds after
    that it checks whether a thread is stopped by a signal: the SIGSTOP of a thread that was just created may arrive late.
    """

    SCRIPT = """read -r word
[ "$word" = over ] && exit
for look in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    states=$(cat /proc/$0/task/*/stat 2>/dev/null | sed 's/.*) //')
    case $states in
        "") exit ;;
        T*|*"
"T*) kill -CONT $0 ;;
    esac
    sleep 0.2
done"""

    def __init__(self):
        self.pid, self.process = None, None

    def watch(self, pid):
        if pid == self.pid:
            return
        self.release()
        nowhere = subprocess.DEVNULL
        try:
            self.process = subprocess.Popen(["/bin/sh", "-c", self.SCRIPT, str(pid)], stdin=subprocess.PIPE,
                                            stdout=nowhere, stderr=nowhere, start_new_session=True)
            self.pid = pid
        except OSError:
            # Without a shell, the user has to send SIGCONT to a program that gdb leaves stopped.
            self.process = None

    def release(self):
        """Ends the helper: gdb has detached from the program, or the program has ended."""
        process, self.pid, self.process = self.process, None, None
        if process is None:
            return
        try:
            process.stdin.write(b"over\n")
            process.stdin.close()
        except OSError:
            pass
        process.wait()


def exit_kill_command(text):
    """Sets whether a program that gdb has launched is killed when gdb is killed: on (gdb's default) or off.

`off` lets the program continue. It applies to the program that runs now: every thread must be stopped. Threads created
later inherit it. A program that gdb has attached to continues in any case."""
    wanted = {"on": PTRACE_O_EXITKILL, "off": 0}.get(text.strip())
    if wanted is None:
        raise Trouble("usage: exit-kill on, or exit-kill off")
    if connection() is None:
        raise Trouble("no program is being debugged")
    if not is_native():
        raise Trouble("gdb is connected to this program through a server, which decides this itself")
    threads = gdb.selected_inferior().threads()
    failed = [thread.num for thread in threads
              if LIBC.ptrace(PTRACE_SETOPTIONS, thread.ptid[1], None, ctypes.c_void_p(PTRACE_OPTIONS_OF_GDB | wanted)) != 0]
    if failed:
        raise Trouble("stop every thread first: thread %s is running" % ", ".join(str(number) for number in failed))
    yield "the program will %s when gdb is killed" % ("be killed" if wanted else "continue")


KEEPER = Keeper()
