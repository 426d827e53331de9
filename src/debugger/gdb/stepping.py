# ---- stepping: a `next` does not end in the collector's handler
#
# While gdb single-steps a thread and a signal with a handler comes, gdb steps over the handler if it recognises the thread's place
# as the one that the step began at. In the code of an inlined function it does not, and the user finds himself in the handler: a
# `next` in Rust is mostly inlined functions. So while a user steps a thread, and it is in the very function that he steps in, the
# suspend signal is withheld. The collector repeats it soon, when the step is over or the thread in a function that it called,
# and there gdb gets it right.

class Stepping:
    """The step that is under way."""

    COMMANDS = ("next", "step", "stepi", "nexti", "until", "finish")
    # A line that loops for long in code of its own function must not keep a collection waiting for ever: after so
    # many repetitions, two seconds at least, it ends in the handler.
    MOST = 100

    def __init__(self):
        self.tid = self.function = None
        self.withheld = 0
        # Threads that have not got their signal. Nothing is pending for them.
        self.owed = set()

    @classmethod
    def install(cls):
        """A hook for each command that steps, unless the user has one."""
        for command in cls.COMMANDS:
            try:
                gdb.execute("show user hook-" + command, to_string=True)
            except gdb.error:
                gdb.execute("define hook-%s\npython sys.modules['stopworld'].STEPPING.begin()\nend" % command,
                            to_string=True)

    def begin(self):
        thread = gdb.selected_thread()
        if thread is None or not thread.is_stopped() or not Session.current().attached or not is_native():
            return
        self.tid, self.function, self.withheld = thread.ptid[1], function_at(gdb.newest_frame().pc()), 0
        CATCHPOINT.enable_suspensions(self.function is not None)

    def end(self):
        if self.tid is not None:
            self.tid = self.function = None
            CATCHPOINT.enable_suspensions(False)
            for signals in (contract.signals() for contract in Session.current().contracts):
                handle(signals[1], "pass")

    def suspended(self):
        """A suspend signal has come for the selected thread: passes it on, or not."""
        tid = gdb.selected_thread().ptid[1]
        here = tid == self.tid and function_at(gdb.newest_frame().pc()) == self.function
        withhold = here and self.withheld < self.MOST
        number = int(gdb.convenience_variable("_siginfo")["si_signo"])
        handle(number, "nopass" if withhold else "pass")
        if withhold:
            self.withheld += 1
            self.owed.add(tid)
        else:
            self.owed.discard(tid)

    def may_answer_for(self, contract, tid):
        """Whether a thread that stands will meet its signal when it goes on. If it was withheld it is sent again."""
        if tid == self.tid:
            return False
        if tid in self.owed:
            self.owed.discard(tid)
            return LIBC.tgkill(gdb.selected_inferior().pid, tid, contract.signals()[1]) == 0
        return True


def function_at(address):
    """Where the function begins whose code this is, inlined functions in it included."""
    block = gdb.block_for_pc(address)
    while block is not None and block.superblock is not None and not block.superblock.is_static:
        block = block.superblock
    return block.start if block is not None and not block.is_global and not block.is_static else None


STEPPING = Stepping()


class Suspended(gdb.Function):
    """The condition of the catchpoint for the suspend signal, while somebody steps. Not for users."""

    def __init__(self):
        super().__init__("_stopworld_suspended")

    def invoke(self):
        try:
            STEPPING.suspended()
        except (Trouble, gdb.error) as trouble:
            Session.current().complain(trouble)
        return 0
