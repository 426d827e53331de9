# ---- stepping: keeps a `next` from ending in the collector's signal handler
#
# If a signal with a handler arrives while gdb single-steps a thread, gdb steps over the handler if it recognises the thread's location as
# the one where the step began. In the code of an inlined function it does not, and the step ends in the handler; in Rust a `next` runs
# mostly inlined functions. So while a user steps a thread, and the thread is in the function in which the step began, the suspend signal is
# withheld. The collector repeats it after 20 ms, when the step is over or the thread is in a called function, and there gdb steps over the
# handler.
#
# The signal is not withheld from a thread that gdb has answered for: the collector relies on it, does not signal again, and may be marking.

class Stepping:
    """The current step."""

    COMMANDS = ("next", "step", "stepi", "nexti", "until", "finish")
    # A line that loops for a long time in its own function must not delay a collection for ever: after this number of withheld signals, two
    # seconds at least, the step ends in the handler.
    MOST = 100

    def __init__(self):
        self.tid = self.function = None
        self.withheld = 0
        # Threads whose signal was withheld. Nothing is pending for them.
        self.owed = set()

    @classmethod
    def install(cls):
        """Defines a hook for each command that steps, unless the user has one."""
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
        """Called when the selected thread gets a suspend signal: passes it on, or withholds it."""
        tid = gdb.selected_thread().ptid[1]
        here = tid == self.tid and function_at(gdb.newest_frame().pc()) == self.function
        withhold = here and self.withheld < self.MOST and not is_answered_for(tid)
        number = int(gdb.convenience_variable("_siginfo")["si_signo"])
        handle(number, "nopass" if withhold else "pass")
        if withhold:
            self.withheld += 1
            self.owed.add(tid)
        else:
            self.owed.discard(tid)

    def may_answer_for(self, contract, tid):
        """Whether a stopped thread will take its suspend signal when it is resumed. A withheld signal is sent again."""
        if tid == self.tid:
            return False
        if tid in self.owed:
            self.owed.discard(tid)
            return LIBC.tgkill(gdb.selected_inferior().pid, tid, contract.signals()[1]) == 0
        return True


def is_answered_for(tid):
    """Whether gdb has answered for this thread in a stop that is not over."""
    return any(record.held and record.frozen == world.epoch for world, record in records_of(tid))


def function_at(address):
    """The start of the function that contains this address, including functions inlined into it."""
    block = gdb.block_for_pc(address)
    while block is not None and block.superblock is not None and not block.superblock.is_static:
        block = block.superblock
    return block.start if block is not None and not block.is_global and not block.is_static else None


STEPPING = Stepping()


class Suspended(gdb.Function):
    """The condition of the catchpoint for the suspend signal during a step. Not for users."""

    def __init__(self):
        super().__init__("_stopworld_suspended")

    def invoke(self):
        try:
            STEPPING.suspended()
        except (Trouble, gdb.error) as trouble:
            Session.current().complain(trouble)
        return 0
