// Follows the stream of the server, and draws it by uPlot. The charts share their zoom. The page keeps its data when the stream ends.
"use strict";
(() => {
  const MOST = 8192; // pauses and sizes that are kept, as in the server
  const MOST_SECONDS = 7200;
  const LATEST = 50;
  const RECENT = 60; // seconds
  const HEIGHT = 180; // of a plot with its axes, in CSS pixels
  const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power);
  const COLOURS = ["--g0", "--g2", "--g1", "--g3", "--g4", "--focus", "--faint", "--text"];
  const $ = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const phaseNames = document.body.dataset.phases.split(" ");

  const data = { pauses: [], heaps: [], seconds: [], missed: 0, next: 0 };
  let latest = null; // the newest batch
  let zoom = null; // [from, to] in seconds, if a part was selected
  let recent = true;

  const number = (value, digits) => value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const micros = (ns) => number(ns / 1e3, ns < 1e5 ? 2 : ns < 1e6 ? 1 : 0);
  const time = (ns) => (ns >= 1e9 ? number(ns / 1e9, 2) + " s" : ns >= 1e6 ? number(ns / 1e6, 2) + " ms" : micros(ns) + " µs");
  const sizes = ["B", "KiB", "MiB", "GiB", "TiB"];
  const bytes = (value) => {
    let size = 0;
    while (value >= 1023.5 && size < sizes.length - 1) { value /= 1024; size++; }
    return number(value, size && value < 99.95 ? 1 : 0) + " " + sizes[size];
  };
  const trim = (list, most) => { if (list.length > most) list.splice(0, list.length - most); };

  // ---- Charts

  const range = () => {
    const end = latest ? latest.now / 1e9 : 1;
    if (zoom) return zoom;
    return recent ? [Math.max(0, end - RECENT), Math.max(end, 1)] : [0, Math.max(end, 1)];
  };

  class Chart {
    constructor(id, label, make) {
      this.figure = $(id + "-chart");
      this.place = this.figure.querySelector(".plot");
      this.none = this.figure.querySelector(".none");
      this.label = label;
      this.make = make;
      this.names = null;
      new ResizeObserver(() => this.plot?.setSize(this.size())).observe(this.place);
    }

    // The legend is below the plot, and may have several lines.
    size() { return { width: this.place.clientWidth, height: HEIGHT }; }

    draw() {
      const { names, columns, paths, stacked, steps, why } = this.make();
      this.none.hidden = !why;
      this.none.textContent = why ?? "";
      this.place.hidden = Boolean(why);
      if (why) return;
      // Series that stand on each other are drawn from the highest to the lowest.
      if (this.names?.join("\n") !== names.join("\n")) this.build(names, paths, steps);
      this.raw = columns;
      const drawn = stacked ? stack(columns) : columns;
      const [min, max] = range();
      this.plot.batch(() => {
        this.plot.setData(drawn, false);
        this.plot.setScale("x", { min, max });
      });
    }

    build(names, paths, steps) {
      this.plot?.destroy();
      this.names = names;
      const colour = (index) => () => css(COLOURS[index % COLOURS.length]).trim();
      const axis = { stroke: () => css("--faint"), font: "12px system-ui, sans-serif", grid: { stroke: () => css("--line"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 } };
      const series = names.map((label, index) => ({
        label,
        stroke: colour(index),
        fill: paths === "points" ? undefined : colour(index),
        width: paths === "points" ? 0 : 1,
        paths: { bars: uPlot.paths.bars({ size: [.7, 14, 1] }), steps: uPlot.paths.stepped({ align: 1 }), points: () => null }[paths],
        points: { show: paths === "points", size: 5, fill: colour(index) },
        value: (_, __, at, index_) => (index_ == null ? "" : this.label(this.raw[at][index_] ?? null)),
      }));
      const options = {
        ...this.size(),
        padding: [10, 20, 0, 4],
        scales: { x: { time: false }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1000] } },
        axes: [
          { ...axis, size: 32, grid: { show: false }, values: (_, places) => places.map((place) => number(place, place % 1 ? 2 : 0) + " s") },
          { ...axis, size: 84, ...(steps ? { incrs: steps } : {}), values: (_, places) => places.map((place) => (place ? this.label(place) : "0")) },
        ],
        series: [{ label: "at", value: (_, at) => (at == null ? "" : number(at, 3) + " s") }, ...series],
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => { show(false); return null; } } },
        hooks: {
          setSelect: [(plot) => {
            const { left, width } = plot.select;
            if (width > 0) {
              zoom = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
              plot.setSelect({ left: 0, width: 0 }, false);
              redraw();
            }
          }],
          setScale: [(plot, key) => { if (key === "x") { this.figure.dataset.from = plot.scales.x.min; this.figure.dataset.to = plot.scales.x.max; } }],
        },
      };
      this.plot = new uPlot(options, [[], ...names.map(() => [])], this.place);
    }
  }

  // Each series stands on the later ones, so that a series drawn later covers the lower part of those before it.
  const stack = ([times, ...columns]) => {
    const ground = times.map(() => 0);
    const stacked = columns.map(() => null);
    for (let index = columns.length - 1; index >= 0; index--) {
      stacked[index] = columns[index].map((value, at) => (ground[at] += value));
    }
    return [times, ...stacked];
  };

  const begins = () => data.pauses.map((pause) => pause.begin / 1e9);
  const threadName = (id) => (latest?.threads.find(([thread]) => thread === id)?.[1].name || "thread " + id);

  const charts = [
    new Chart("pauses", (ns) => (ns == null ? "" : time(ns)), () => ({
      names: ["pause"], paths: "bars", columns: [begins(), data.pauses.map((pause) => pause.ns)],
    })),
    new Chart("stops", (ns) => (ns == null ? "" : time(ns)), () => {
      if (latest?.runtime === "dotnet") return { why: ".NET does not report which thread a stop waits for." };
      const threads = (latest?.threads ?? []).filter(([, thread]) => thread.waited).slice(0, COLOURS.length - 1);
      const own = new Set(threads.map(([id]) => id));
      const columns = threads.map(([id]) => data.pauses.map((pause) => pause.stops.find(([thread]) => thread === id)?.[1] ?? null));
      // The slowest of the others, those included that have left. A pause has the slowest first.
      const others = data.pauses.map((pause) => pause.stops.find(([thread]) => !own.has(thread))?.[1] ?? null);
      return { names: [...threads.map(([id]) => threadName(id)), "other threads"], paths: "points", columns: [begins(), ...columns, others] };
    }),
    new Chart("heap", (size) => (size == null ? "" : bytes(size)), () => {
      const spaces = (latest?.spaces ?? []).map((name, index) => [name, index]).filter(([name]) => name);
      const columns = spaces.map(([, index]) => data.heaps.map((heap) => heap.bytes[index]));
      return { names: spaces.map(([name]) => name), paths: "steps", stacked: true, steps: POWERS_OF_TWO, columns: [data.heaps.map((heap) => heap.time / 1e9), ...columns] };
    }),
    new Chart("phases", (ns) => (ns == null ? "" : time(ns)), () => {
      const used = phaseNames.map((name, index) => [name, index]).filter(([, index]) => data.pauses.some((pause) => pause.phases[index]));
      const columns = used.map(([, index]) => data.pauses.map((pause) => pause.phases[index]));
      return { names: used.map(([name]) => name), paths: "bars", stacked: true, columns: [begins(), ...columns] };
    }),
    new Chart("events", (count) => (count == null ? "" : number(count, 0)), () => ({
      names: ["events", "lost"], paths: "steps",
      columns: [data.seconds.map((second) => second.second), data.seconds.map((second) => second.events), data.seconds.map((second) => second.lost)],
    })),
  ];

  // ---- Figures and tables

  const texts = () => {
    const { pauses } = data;
    const last = pauses.at(-1);
    const heap = data.heaps.at(-1);
    const rate = data.seconds.at(-2)?.events ?? 0;
    const counter = (name, show) => (latest.counters[name] ? show(latest.counters[name].value) : "");
    return [
      ["Pauses", "count", number(latest.total, 0)],
      ["Time paused", "share", latest.now ? number(latest.paused * 100 / latest.now, 2) + " %" : ""],
      ["Last pause", "last", last ? time(last.ns) : ""],
      ["Longest pause", "longest", latest.longest ? time(latest.longest) : ""],
      ["Heap after collection", "heap-size", heap ? bytes(heap.bytes.reduce((sum, size) => sum + size, 0)) : ""],
      ["Heap now", "heap-now", counter("gc-heap-size", (mb) => bytes(mb * 1e6))],
      ["Threads", "threads", counter("thread-count", (count) => number(count, 0))],
      ["Threads of the pool", "pool-threads", counter("threadpool-thread-count", (count) => number(count, 0))],
      ["Events per second", "rate", number(rate, 0)],
      ["Lost events", "lost", number(latest.lost, 0)],
      ["Incomplete pauses", "incomplete", latest.incomplete ? number(latest.incomplete, 0) : ""],
    ].filter(([, , text]) => text);
  };

  const element = (name, text) => Object.assign(document.createElement(name), { textContent: text });

  const figures = () => {
    $("figures").replaceChildren(...texts().map(([name, id, text]) => {
      const entry = document.createElement("div");
      const value = Object.assign(element("dd", text), { id: "figure-" + id });
      entry.append(element("dt", name), value);
      return entry;
    }));
  };

  const table = () => {
    const rows = data.pauses.slice(-LATEST).reverse().map((pause) => {
      const slowest = pause.stops[0];
      const generation = latest.runtime === "dotnet" && pause.number != null ? "generation " + pause.generation + (pause.background ? ", background: " : ": ") : "";
      const cells = [
        number(pause.begin / 1e9, 3), pause.number ?? "", micros(pause.ns), micros(pause.phases[0]), pause.heap == null ? "" : bytes(pause.heap),
        (pause.failed ? "failed: " : "") + generation + pause.reason, slowest ? threadName(slowest[0]) + ", " + micros(slowest[1]) + " µs" : "",
      ];
      const row = document.createElement("tr");
      row.classList.toggle("failed", pause.failed);
      row.dataset.ns = pause.ns;
      row.append(...cells.map((cell) => element("td", cell)));
      return row;
    });
    document.querySelector("#latest tbody").replaceChildren(...rows);
  };

  const buttons = () => {
    for (const { name, reason } of latest.actions) {
      const button = $(name);
      button.disabled = reason != null || document.body.dataset.connected !== "yes";
      button.title = reason ?? button.dataset.title;
    }
  };

  const state = (text, isEnd = false) => {
    const missed = data.missed ? `; ${number(data.missed, 0)} pauses are not shown: the page was away for too long` : "";
    // A screen reader announces each change.
    if ($("state").textContent !== text + missed) $("state").textContent = text + missed;
    $("state").classList.toggle("ended", isEnd);
  };

  let wanted = false;
  const redraw = () => {
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => {
      wanted = false;
      charts.forEach((chart) => chart.draw());
      if (!latest) return;
      figures();
      table();
    });
  };

  const show = (isRecent) => {
    recent = isRecent;
    zoom = null;
    $("recent").setAttribute("aria-pressed", String(isRecent));
    $("whole").setAttribute("aria-pressed", String(!isRecent));
    redraw();
  };
  $("recent").addEventListener("click", () => show(true));
  $("whole").addEventListener("click", () => show(false));

  // ---- The stream

  const take = (batch) => {
    // A page that was just opened has missed nothing.
    if (!latest) data.next = batch.first;
    // Entries that came before: the stream began again.
    const known = Math.max(0, data.next - batch.first);
    if (batch.first > data.next) data.missed += batch.first - data.next;
    data.pauses.push(...batch.pauses.slice(known));
    // Pauses of several worlds may end in another order than they begin. The charts need the order of the beginnings.
    if (data.pauses.some((pause, at) => at > 0 && pause.begin < data.pauses[at - 1].begin)) data.pauses.sort((one, other) => one.begin - other.begin);
    data.next = Math.max(data.next, batch.first + batch.pauses.length);
    const lastHeap = data.heaps.at(-1)?.time ?? -1;
    data.heaps.push(...batch.heaps.filter((heap) => heap.time > lastHeap));
    for (const second of batch.seconds) {
      const newest = data.seconds.at(-1)?.second ?? -1;
      // The newest second may have grown.
      if (second.second === newest) data.seconds.pop();
      if (second.second >= newest) data.seconds.push(second);
    }
    trim(data.pauses, MOST);
    trim(data.heaps, MOST);
    trim(data.seconds, MOST_SECONDS);
    latest = batch;
    if (batch.ended) state(batch.ended + ": this is what was seen until then", true);
    else state("Live");
    document.body.dataset.next = data.next;
    document.body.dataset.ended = batch.ended ?? "";
    buttons();
    redraw();
  };

  const RETRY = 2000;
  let stream = null; // open while the page is visible
  let last = ""; // the id of the newest batch
  const connect = () => {
    if (stream || document.hidden) return;
    stream = new EventSource("events?after=" + last);
    stream.addEventListener("open", () => { document.body.dataset.connected = "yes"; });
    stream.addEventListener("message", (event) => {
      last = event.lastEventId;
      take(JSON.parse(event.data));
    });
    stream.addEventListener("error", () => {
      document.body.dataset.connected = "no";
      document.body.dataset.losses = 1 + Number(document.body.dataset.losses ?? 0);
      if (latest) buttons();
      const ended = latest?.ended ? latest.ended + "; the" : "The";
      state(ended + " connection to stopworld watch is lost; the page keeps its data and tries again", true);
      // The browser tries again by itself, unless the server refused.
      if (stream?.readyState === EventSource.CLOSED) {
        stream = null;
        setTimeout(connect, RETRY);
      }
    });
  };
  // A browser has few connections to a server for all of its tabs, and a hidden page draws nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stream?.close();
      stream = null;
      document.body.dataset.connected = "no";
    } else {
      connect();
    }
  });
  connect();

  // ---- Actions

  const download = (blob, name) => {
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  const act = async (name, query = "") => {
    const button = $(name);
    const answer = $("answer");
    answer.textContent = button.textContent + ": in progress…";
    try {
      const response = await fetch(name + query, { method: "POST" });
      if (response.status === 300) {
        const choices = (await response.json()).map((world) => {
          const choice = element("button", "World " + number(world, 0));
          choice.type = "button";
          choice.addEventListener("click", () => act(name, "?world=" + world));
          return choice;
        });
        answer.replaceChildren(button.textContent + ": the process has several heaps; take that of ", ...choices);
      } else if (!response.ok) {
        answer.textContent = button.textContent + ": " + (await response.text()).trim();
      } else if (response.status === 204) {
        answer.textContent = button.textContent + ": done";
      } else {
        const file = /filename="([^"]+)"/.exec(response.headers.get("content-disposition"))[1];
        const blob = await response.blob();
        download(blob, file);
        answer.textContent = `${button.textContent}: ${file}, ${bytes(blob.size)}`;
      }
    } catch (error) {
      answer.textContent = button.textContent + ": the connection to stopworld watch is lost";
    }
  };
  ["collect", "snapshot", "record"].forEach((name) => $(name).addEventListener("click", () => act(name)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { charts.forEach((chart) => { chart.names = null; }); redraw(); });
  redraw();
})();
