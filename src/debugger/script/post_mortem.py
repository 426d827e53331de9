# ---- cores: a dead process cannot call a function, so the command `stopworld core` reads its heap

# What the commands for objects are called there.
CORE_OPTIONS = {"object": "--object", "fields": "--object", "referrers": "--referrers", "why-alive": "--why"}


def post_mortem(core, program, arguments):
    """Runs `stopworld core` on a core file. Returns the lines of its report, followed by what it could not read.

    The environment variable STOPWORLD names the command, if it is not in PATH."""
    command = os.environ.get("STOPWORLD") or "stopworld"
    words = [command, "core", core] + (["--program", program] if program else []) + list(arguments)
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise Trouble("a core is read by the command `%s`, which cannot be run (%s): set STOPWORLD to its path" % (
            command, error.strerror)) from None
    report, complaints = (text.decode("utf-8", "replace").splitlines() for text in (done.stdout, done.stderr))
    if not report:
        raise Trouble(complaints[0] if complaints else "`%s core` printed nothing" % command)
    return report + complaints
