-- Questions of people who run fleets, about the dataset that `stopworld convert` writes. DuckDB and Spark both understand them.
-- Each query begins with a line "-- query NAME: what it answers".

-- query versions: how long are pauses in each version of each program?
SELECT process,
       program_version,
       count(*) AS collections,
       CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY pause_ns) AS BIGINT) AS p50_pause_ns,
       CAST(percentile_disc(0.99) WITHIN GROUP (ORDER BY pause_ns) AS BIGINT) AS p99_pause_ns,
       CAST(percentile_disc(0.999) WITHIN GROUP (ORDER BY pause_ns) AS BIGINT) AS p999_pause_ns,
       max(pause_ns) AS max_pause_ns
FROM collections
WHERE is_complete
GROUP BY process, program_version
ORDER BY process, program_version;

-- query regressed: which programs pause longer today than yesterday?
WITH days AS (
    SELECT process,
           day,
           count(*) AS collections,
           CAST(percentile_disc(0.99) WITHIN GROUP (ORDER BY pause_ns) AS BIGINT) AS p99_pause_ns
    FROM collections
    WHERE is_complete
    GROUP BY process, day
), latest AS (
    SELECT max(day) AS today, max(day) - INTERVAL 1 DAY AS yesterday FROM collections
)
SELECT today.process,
       yesterday.p99_pause_ns AS yesterday_p99_pause_ns,
       today.p99_pause_ns AS today_p99_pause_ns,
       CAST(round(100 * (today.p99_pause_ns / yesterday.p99_pause_ns - 1)) AS BIGINT) AS longer_percent
FROM latest
JOIN days AS today ON today.day = latest.today
JOIN days AS yesterday ON yesterday.day = latest.yesterday AND yesterday.process = today.process
ORDER BY longer_percent DESC, today.process;

-- query by_heap: how does the pause depend on the size of the heap?
SELECT CAST(floor(log2(heap_before_bytes)) AS BIGINT) AS log2_heap_bytes,
       count(*) AS collections,
       CAST(round(avg(pause_ns)) AS BIGINT) AS mean_pause_ns,
       CAST(percentile_disc(0.99) WITHIN GROUP (ORDER BY pause_ns) AS BIGINT) AS p99_pause_ns
FROM collections
WHERE is_complete AND heap_before_bytes > 0
GROUP BY 1
ORDER BY 1;

-- query outliers: which pauses are the longest, and in which file is each?
SELECT pause_ns, stop_ns, host, process, program_version, process_id, number, trace_file
FROM collections
WHERE is_complete
ORDER BY pause_ns DESC, trace_file, number
LIMIT 10;

-- query hosts: on which machines do threads take longest to stop?
SELECT host,
       count(*) AS stops,
       CAST(percentile_disc(0.99) WITHIN GROUP (ORDER BY stop_ns) AS BIGINT) AS p99_stop_ns,
       CAST(round(100 * (sum(stop_ns) / sum(duration_ns))) AS BIGINT) AS stop_percent_of_pause
FROM stops
GROUP BY host
ORDER BY p99_stop_ns DESC, host;

-- query phases: what do collections spend their time on?
SELECT process, phase, count(*) AS times, sum(duration_ns) AS total_ns
FROM phases
GROUP BY process, phase
HAVING sum(duration_ns) > 0
ORDER BY process, total_ns DESC, phase;

-- query events: which events are most frequent?
SELECT provider, event, count(*) AS times
FROM events
GROUP BY provider, event
ORDER BY times DESC, provider, event
LIMIT 10;
