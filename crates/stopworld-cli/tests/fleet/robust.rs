//! Outputs that are not lost, limits of the system, and what the names of folders say.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rstest::rstest;

use crate::command_support::{STOPWORLD, directory, run, stopworld, text};
use crate::{fixture, succeeded};

const TRACE: &str = "nettrace/gcapp-3.1-gc-info.nettrace";

fn place(at: &Path, names: &[&str]) {
    for name in names {
        let path = at.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(fixture(TRACE), path).unwrap();
    }
}

#[rstest]
#[case::a_folder_of_traces("convert d1/ d2/", "d2/: the folder has files, but is not a dataset")]
#[case::the_input("convert d1/ d1/", "d1/: the folder has files, but is not a dataset")]
#[case::a_folder_for_gcstats("gcstats d1 --parquet d2", "d2: the folder has files, but is not a dataset")]
#[case::a_trace("convert d1/a.nettrace d2/b.nettrace", "d2/b.nettrace: it is a trace")]
#[case::standard_output("gcstats d1 --parquet -", "a Parquet dataset is a folder")]
#[case::no_output("convert d1/a.nettrace", "--output OUT")]
fn an_output_that_is_an_input_is_refused(#[case] arguments: &str, #[case] expected: &str) {
    let here = directory();
    place(here.path(), &["d1/a.nettrace", "d2/b.nettrace"]);
    let output = run(here.path(), arguments);
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains(expected), "{said}");
    let names = |folder| fs::read_dir(here.path().join(folder)).unwrap().count();
    assert_eq!((names("."), names("d1"), names("d2")), (2, 1, 1));
    assert!(fs::read(here.path().join("d2/b.nettrace")).unwrap() == fs::read(fixture(TRACE)).unwrap());
}

/// A folder is a dataset if it has nothing but tables, and they have nothing but partitions.
#[rstest]
#[case::a_project(&["project/events/x.md", "project/src/main.c"], 2)]
#[case::traces_in_a_folder_named_like_a_table(&["project/traces/a.nettrace"], 2)]
#[case::a_file_named_like_a_table(&["project/threads"], 2)]
#[case::left_by_spark(&["project/_SUCCESS", "project/events/.crc"], 0)]
fn a_folder_with_something_else_is_no_dataset(#[case] files: &[&str], #[case] code: i32) {
    let here = directory();
    place(here.path(), files);
    place(here.path(), &["a.nettrace"]);
    let output = run(here.path(), "convert a.nettrace --output project --format parquet");
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    assert_eq!(here.path().join("project/collections").exists(), code == 0);
}

#[rstest]
#[case::a_trace_is_replaced("convert a.nettrace --output b.nettrace", "b.nettrace")]
#[case::several_traces("convert -o out.parquet a.nettrace b.nettrace", "out.parquet/traces")]
fn the_output_may_be_an_option(#[case] arguments: &str, #[case] written: &str) {
    let here = directory();
    place(here.path(), &["a.nettrace"]);
    fs::copy(fixture("nettrace/tiny.nettrace"), here.path().join("b.nettrace")).unwrap();
    succeeded(&run(here.path(), arguments));
    let tiny = fs::metadata(fixture("nettrace/tiny.nettrace")).unwrap().len();
    let path = here.path().join(written);
    assert!(path.is_dir() || fs::metadata(&path).unwrap().len() > 2 * tiny);
    // A dataset is added to.
    succeeded(&run(here.path(), "convert a.nettrace out.parquet"));
}

#[test]
fn folders_above_the_working_directory_are_facts() {
    let here = directory();
    place(here.path(), &["host=web%201/day=2026-01-02/a.nettrace"]);
    succeeded(&run(&here.path().join("host=web%201/day=2026-01-02"), "convert a.nettrace ../../out.parquet"));
    let hosts = fs::read_dir(here.path().join("out.parquet/traces")).unwrap();
    let hosts: Vec<_> = hosts.map(|host| host.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(hosts, ["host=web 1"]);
}

#[test]
fn a_dataset_without_traces_is_not_created() {
    let here = directory();
    let output = run(here.path(), "convert missing.mps out.parquet");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(!here.path().join("out.parquet").exists());
}

#[test]
fn few_open_files_are_enough_for_many_jobs() {
    let here = directory();
    place(here.path(), &["a.nettrace", "b.nettrace", "c.nettrace", "d.nettrace", "e.nettrace", "f.nettrace"]);
    const CONVERT: &str = "ulimit -n 34 && exec \"$0\" convert --jobs 6 . out.parquet";
    let mut shell = Command::new("sh");
    succeeded(&shell.args(["-c", CONVERT, STOPWORLD]).current_dir(here.path()).stdin(Stdio::null()).output().unwrap());
}

#[test]
fn a_closed_standard_error_does_not_end_the_conversion() {
    let here = directory();
    place(here.path(), &["a.nettrace"]);
    let mut command = stopworld(here.path(), "convert a.nettrace missing.mps out.parquet");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(here.path().join("out.parquet/traces").is_dir());
}

#[test]
fn a_trace_without_the_process_does_not_hide_the_others() {
    let here = directory();
    place(here.path(), &["b.nettrace"]);
    fs::copy(fixture("nettrace/bgc-srv.nettrace"), here.path().join("a.nettrace")).unwrap();
    let output = run(here.path(), "gcstats a.nettrace b.nettrace --process 4592");
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("a.nettrace: --process: the trace has no process 4592"), "{said}");
    let alone = text(&run(here.path(), "gcstats b.nettrace --process 4592").stdout);
    assert!(!alone.is_empty() && printed.ends_with(&alone), "{printed}");
}
