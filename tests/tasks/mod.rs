//! What the kernel reports about the threads of a process.

/// Applies `part` to the contents of `/proc/PID/task/TID/FILE` of each thread that still exists. Returns the results.
fn each(pid: i32, file: &str, part: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |path: std::path::PathBuf| part(&std::fs::read_to_string(path.join(file)).ok()?);
    tasks.filter_map(|task| read(task.ok()?.path())).collect()
}

/// The letters of the states of all threads.
pub fn states(pid: i32) -> String {
    each(pid, "stat", |stat| stat.get(stat.rfind(')')? + 2..)?.get(..1).map(str::to_owned)).concat()
}

/// Asserts that no thread is left stopped.
pub fn assert_none_stopped(pid: i32) {
    let left: String = states(pid).chars().filter(|state| !"RSDXZ".contains(*state)).collect();
    assert_eq!(left, "", "threads are left stopped");
}

/// The tracers of the threads that have not ended, one entry for each traced thread.
pub fn tracers(pid: i32) -> Vec<String> {
    let tracer = |status: &str| {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let has_ended = field("State:")?.starts_with(['X', 'Z']);
        field("TracerPid:").filter(|tracer| !has_ended && *tracer != "0").map(str::to_owned)
    };
    each(pid, "status", tracer)
}

/// Asserts that none of its threads is traced, except exiting ones.
pub fn assert_none_traced(pid: i32) {
    assert_eq!(tracers(pid), Vec::<String>::new(), "threads are still traced");
}
