//! DuckDB and Spark read what we write: the values are those of our own report, and both give the same answers.

use super::command_support::{STOPWORLD, directory, run, text};
use super::skipped::skipped;
use super::{fixture, reported, succeeded};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The folder into which `.ci/query-engines` installs.
fn installed(engine: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("query-engines").join(engine);
    if !folder.is_dir() {
        skipped(engine);
        return None;
    }
    Some(folder)
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet").join(name)
}

/// Runs a query with DuckDB. Returns the rows as JSON.
fn duckdb(engine: &Path, dataset: &Path, sql: &str) -> Value {
    const SCRIPT: &str = "\
import duckdb, json, sys
dataset, sql = sys.argv[1:]
for table in ['collections', 'stops', 'events', 'traces', 'phases', 'threads', 'bands']:
    sql = sql.replace('@' + table, f\"read_parquet('{dataset}/{table}/**/*.parquet', hive_partitioning = true)\")
print(json.dumps(duckdb.sql(sql).fetchall(), default=str))";
    let mut python = Command::new("python3");
    let output = python.args(["-c", SCRIPT]).arg(dataset).arg(sql).env("PYTHONPATH", engine).output().unwrap();
    succeeded(&output);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn duckdb_finds_the_collections_of_a_real_run() {
    let Some(engine) = installed("duckdb") else { return };
    let here = directory();
    for number in 0..3 {
        succeeded(&run(
            here.path(),
            &format!("run binary-trees --threads 2 --collections 4 --trace {number}.nettrace"),
        ));
    }
    fs::copy(fixture("nettrace/bgc-srv.nettrace"), here.path().join("dotnet.nettrace")).unwrap();
    succeeded(&run(here.path(), "convert . out.parquet --host web-1"));
    succeeded(&run(here.path(), "gcstats . --parquet stats"));
    const SUMS: &str =
        "SELECT count(*)::BIGINT, sum(pause_ns)::BIGINT, max(pause_ns)::BIGINT FROM @collections WHERE is_complete";
    for dataset in ["out.parquet", "stats"] {
        for name in ["0.nettrace", "1.nettrace", "2.nettrace", "dotnet.nettrace"] {
            let expected = reported(&here.path().join(name));
            let sql = format!("{SUMS} AND trace_file = './{name}'");
            let found = duckdb(&engine, &here.path().join(dataset), &sql);
            assert_eq!(found, serde_json::json!([expected]), "{dataset} {name}");
            assert!(expected[0] >= 3, "{name} has {} collections", expected[0]);
        }
    }
    let out = here.path().join("out.parquet");
    // A run has one stop for each collection, and the world is stopped for exactly the pause.
    let stops = "SELECT count(*), sum(duration_ns)::BIGINT FROM @stops WHERE process = 'stopworld' AND host = 'web-1'";
    let pauses =
        "SELECT count(*), sum(pause_ns)::BIGINT FROM @collections WHERE process = 'stopworld' AND host = 'web-1'";
    let [stops, pauses] = [stops, pauses].map(|sql| duckdb(&engine, &out, sql));
    let numbers = |rows: &Value| [rows[0][0].as_i64().unwrap(), rows[0][1].as_i64().unwrap()];
    let ([stops, stopped], [collections, paused]) = (numbers(&stops), numbers(&pauses));
    // gcstats computes with milliseconds.
    assert!(stops == collections && (stopped - paused).abs() <= stops, "{stopped} {paused}");
    // A trace with the default events names its threads.
    let named =
        "SELECT count(*), count(name), count(*) FILTER (name = 'main') FROM @threads WHERE process = 'stopworld'";
    let named = duckdb(&engine, &out, named);
    assert!(named[0][0].as_i64().unwrap() >= 3, "{named}");
    assert_eq!((&named[0][1], &named[0][2]), (&named[0][0], &Value::from(3)), "{named}");
    // The events are those that `dump` counts.
    let events =
        duckdb(&engine, &out, "SELECT sum(n)::BIGINT FROM (SELECT count(*) AS n FROM @events GROUP BY trace_file)");
    let counted: i64 = ["0", "1", "2", "dotnet"]
        .iter()
        .flat_map(|name| {
            let printed = text(&run(here.path(), &format!("dump --counts {name}.nettrace")).stdout);
            let counts = printed.lines().map(|line| line.split_whitespace().next().unwrap().parse::<i64>().unwrap());
            counts.collect::<Vec<_>>()
        })
        .sum();
    assert_eq!(events, serde_json::json!([[counted]]));
}

/// The objects and bytes of each band of each sample are those of `heapprof`.
#[test]
fn duckdb_finds_the_objects_of_a_heap_profile() {
    let Some(engine) = installed("duckdb") else { return };
    let here = directory();
    succeeded(&run(here.path(), "run gcbench --depth 10 --collections 5 --profile hy --trace run.eventlog"));
    succeeded(&run(here.path(), "convert run.eventlog out.parquet"));
    let found = duckdb(
        &engine,
        &here.path().join("out.parquet"),
        "SELECT sum(bytes)::BIGINT, sum(objects)::BIGINT, count(*) FILTER (objects IS NULL) FROM @bands",
    );
    let csv = text(&run(here.path(), "heapprof run.eventlog --csv").stdout);
    let sums = csv.lines().skip(1).fold([0_i64; 2], |[bytes, objects], line| {
        let mut cells = line.rsplit(',').map(|cell| cell.parse::<i64>().unwrap());
        let more = cells.next().unwrap();
        [bytes + cells.next().unwrap(), objects + more]
    });
    assert!(sums[1] > 100, "{csv}");
    assert_eq!(found, serde_json::json!([[sums[0], sums[1], 0]]));
}

#[test]
fn a_fleet_gives_the_same_answers_with_duckdb_and_with_spark() {
    let (Some(duckdb), Some(spark)) = (installed("duckdb"), installed("pyspark")) else { return };
    if Command::new("java").arg("-version").output().is_err() {
        return skipped("java");
    }
    let here = directory();
    let mut generate = Command::new("python3");
    generate.arg(example("generate.py")).args(["--processes", "24", "--stopworld", STOPWORLD, "traces"]);
    succeeded(&generate.current_dir(here.path()).output().unwrap());
    succeeded(&run(here.path(), "convert traces fleet.parquet"));
    let ask = |engine: &str, packages: &Path| {
        let mut query = Command::new("python3");
        query.arg(example("query.py")).args(["--json", "--engine", engine, "fleet.parquet"]);
        let output = query.current_dir(here.path()).env("PYTHONPATH", packages).output().unwrap();
        succeeded(&output);
        let lines = text(&output.stdout);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let answers = ask("duckdb", &duckdb);
    assert_eq!(answers, ask("spark-cluster", &spark));

    let rows = |query: &str| {
        let answer = answers.iter().find(|answer| answer["query"] == query).unwrap();
        answer["rows"].as_array().unwrap().clone()
    };
    let traces: Vec<PathBuf> = files(&here.path().join("traces"));
    assert_eq!(traces.len(), 24);
    let all: Vec<[i64; 3]> = traces.iter().map(|trace| reported(trace)).collect();
    let versions = rows("versions");
    let named: Vec<_> = versions
        .iter()
        .map(|row| (row["process"].as_str().unwrap(), row["program_version"].as_str().unwrap()))
        .collect();
    assert_eq!(named, [("cart", "1.0"), ("orders", "2.3"), ("orders", "2.4"), ("search", "5.1"), ("search", "5.2")]);
    let collections: i64 = versions.iter().map(|row| row["collections"].as_i64().unwrap()).sum();
    assert_eq!(collections, all.iter().map(|[count, ..]| count).sum::<i64>());
    // The longest pause leads to the file in which gcstats reports it.
    let longest = &rows("outliers")[0];
    assert_eq!(longest["pause_ns"].as_i64(), all.iter().map(|[.., max]| *max).max());
    let file = here.path().join(longest["trace_file"].as_str().unwrap());
    assert_eq!(reported(&file)[2], longest["pause_ns"].as_i64().unwrap());
    assert_eq!(rows("regressed").len(), 3);
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
