#!/usr/bin/env python3
"""Runs the queries of queries.sql on a dataset that `stopworld convert` has written, with DuckDB or with Spark.

usage: query.py [--engine duckdb|spark|spark-cluster] [--json] DATASET [QUERY...]

`spark` runs in one process. `spark-cluster` starts a master and two workers on this machine, each a process of its own; a real cluster runs the same
program by spark-submit. Prints each result as a table with the time it took, or with --json as a line {"query": ..., "rows": [...]}.
"""

import argparse
import glob
import json
import os
import pathlib
import re
import sys
import time

TABLES = ["traces", "events", "collections", "phases", "stops", "threads", "heap_samples", "bands"]


def queries():
    """Returns the queries by name."""
    text = pathlib.Path(__file__).with_name("queries.sql").read_text()
    parts = re.split(r"^-- query (\w+): .*$", text, flags=re.MULTILINE)[1:]
    return {name: sql.strip().rstrip(";") for name, sql in zip(parts[::2], parts[1::2])}


def with_duckdb(dataset):
    import duckdb

    connection = duckdb.connect()
    for table in TABLES:
        files = os.path.join(dataset, table, "**", "*.parquet")
        # A table without rows has no files.
        if glob.glob(files, recursive=True):
            # Spark also takes a day for a date, and everything else as text.
            connection.execute(
                f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}', hive_partitioning = true, "
                "hive_types = {'host': VARCHAR, 'process': VARCHAR, 'day': DATE})"
            )

    def run(sql):
        cursor = connection.execute(sql)
        return [column[0] for column in cursor.description], cursor.fetchall()

    return run, connection.close


def with_spark(dataset, master):
    # Everything stays on this machine.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    # Otherwise the workers of a local cluster look for a build of Spark's sources.
    os.environ.setdefault("SPARK_SCALA_VERSION", "2.13")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("fleet")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    begin = time.monotonic()
    spark = builder.getOrCreate()
    print(f"Spark started after {time.monotonic() - begin:.1f} s", file=sys.stderr)
    for table in TABLES:
        folder = os.path.join(dataset, table)
        if os.path.isdir(folder):
            frame = spark.read.parquet(folder)
            # A value such as 1e5 would be a number.
            for name, kind in [("host", "string"), ("process", "string"), ("day", "date")]:
                frame = frame.withColumn(name, frame[name].cast(kind))
            frame.createOrReplaceTempView(table)

    def run(sql):
        frame = spark.sql(sql)
        return frame.columns, [tuple(row) for row in frame.collect()]

    return run, spark.stop


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["duckdb", "spark", "spark-cluster"], default="duckdb")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("dataset")
    parser.add_argument("queries", nargs="*")
    arguments = parser.parse_args()

    known = queries()
    unknown = [name for name in arguments.queries if name not in known]
    if unknown:
        sys.exit(f"query.py: there is no query {unknown[0]}; there are {', '.join(known)}")
    if not os.path.isdir(arguments.dataset):
        sys.exit(f"query.py: there is no dataset {arguments.dataset}")
    masters = {"spark": "local[*]", "spark-cluster": "local-cluster[2,1,1024]"}
    if arguments.engine == "duckdb":
        run, stop = with_duckdb(arguments.dataset)
    else:
        run, stop = with_spark(arguments.dataset, masters[arguments.engine])

    for name in arguments.queries or known:
        begin = time.monotonic()
        columns, rows = run(known[name])
        seconds = time.monotonic() - begin
        if arguments.json:
            print(json.dumps({"query": name, "rows": [dict(zip(columns, row)) for row in rows]}, default=str))
            continue
        cells = [columns] + [["" if value is None else str(value) for value in row] for row in rows]
        widths = [max(len(row[column]) for row in cells) for column in range(len(columns))]
        print(f"{name}: {len(rows)} rows after {seconds:.2f} s")
        for row in cells:
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    stop()


if __name__ == "__main__":
    main()
