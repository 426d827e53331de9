// Draws the charts of a page by uPlot, from the JSON in #charts. Charts of time share their zoom and their cursor.
"use strict";
(() => {
  const says = document.getElementById("says");
  const all = [];

  const number = (value, digits) => value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const sizes = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  const bytes = (value, digits = (n) => (n < 9.995 ? 2 : n < 99.95 ? 1 : 0)) => {
    let size = 0;
    while (value >= 1023.5 && size < sizes.length - 1) { value /= 1024; size++; }
    return number(value, size ? digits(value) : 0) + " " + sizes[size];
  };
  const show = {
    "ms": (value) => number(value, 3) + " ms",
    "MB": (value) => number(value, 3) + " MB",
    "MB/s": (value) => number(value, 1) + " MB/s",
    "B": (value) => bytes(value),
    "": (value) => number(value, 0),
  };
  // The decimals of the labels of an axis: those of its step.
  const decimals = (step) => {
    let digits = 0;
    while (digits < 9 && Math.abs(step - +step.toFixed(digits)) > step * 1e-6) digits++;
    return digits;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

  // The width of the vertical axis: that of its longest label. In a wide window short labels get more room, so that the charts begin
  // at the same place.
  const gutter = (plot, labels, index, cycle) => {
    const axis = plot.axes[index];
    if (cycle > 1) return axis._size;
    plot.ctx.font = axis.font[0];
    const widths = (labels ?? []).map((label) => plot.ctx.measureText(label).width / devicePixelRatio);
    return Math.ceil(Math.max(innerWidth > 640 ? 70 : 16, ...widths) + axis.ticks.size + axis.gap + 4);
  };
  const powersOfTwo = Array.from({ length: 63 }, (_, power) => 2 ** power);
  const wholeSteps = Array.from({ length: 45 }, (_, index) => [1, 2, 5][index % 3] * 10 ** Math.floor(index / 3));

  class Chart {
    constructor(chart) {
      this.chart = chart;
      this.figure = document.getElementById(chart.id + "-chart");
      this.place = this.figure.querySelector(".plot");
      const ordered = (selector) => [...this.figure.querySelectorAll(selector)].sort((a, b) => a.dataset.series - b.dataset.series);
      this.boxes = ordered("input[data-series]");
      this.outputs = ordered("output[data-series]");
      this.isTime = chart.kind !== "classes";
      this.isBar = chart.kind === "bars" || chart.kind === "classes";
      // The index under the cursor, or -1.
      this.here = -1;
      // A single collection gets an axis of a second around it.
      const margin = !this.isTime ? 0 : chart.to > chart.from ? (chart.to - chart.from) * .01 : .5;
      this.whole = { min: chart.from - margin, max: chart.to + margin || 1 };
      this.join();
      this.plot = new uPlot(this.options(), this.drawn(), this.place);
      all.push(this);
      this.connect();
    }

    // Brings the series and the lines, which have times of their own, to common places.
    join() {
      const { kind, places, series, lines } = this.chart;
      // The last size holds until the end of the axis: a place more, which the cursor takes for the last one.
      const end = kind === "steps" && places.length ? [this.whole.max] : [];
      const tables = [[[...places, ...end], ...series.map((values) => [...values, ...end.map(() => values.at(-1))])], ...lines];
      this.raw = lines.length ? uPlot.join(tables) : tables[0];
      this.times = this.raw[0];
      this.last = this.times.length - 1 - end.length;
    }

    isArea(index) { return !this.isBar && index < this.chart.series.length; }

    colour(index) { return getComputedStyle(this.boxes[index].parentElement.querySelector(".swatch")).color; }

    faded(index) { return this.colour(index).replace("rgb(", "rgba(").replace(")", ", .8)"); }

    // The drawn data: areas stand on those before them, and a deselected one has no height.
    drawn() {
      const ground = this.times.map(() => 0);
      return this.raw.map((values, index) => {
        if (index === 0 || !this.isArea(index - 1)) return values;
        const isShown = this.boxes[index - 1].checked;
        return values.map((value, at) => (value == null ? value : (ground[at] += isShown ? value : 0)));
      });
    }

    // A bar has a value at its own place only; an area or a line until the next one.
    valueAt(index, at) {
      const values = this.raw[index + 1];
      while (!this.isBar && at >= 0 && values[at] == null) at--;
      return values[at];
    }

    options() {
      const { kind, series, lines } = this.chart;
      const bands = series.slice(1).map((_, index) => ({ series: [index + 2, index + 1], fill: () => this.faded(index + 1) }));
      return {
        width: this.place.clientWidth,
        height: this.place.clientHeight,
        padding: [12, 34, 0, 4],
        legend: { show: false },
        cursor: {
          y: false,
          points: { show: (_, index) => !this.isArea(index - 1) && !this.isBar },
          // The selection is applied here, to all charts of time.
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => { this.reset(); return null; } },
          sync: this.isTime ? { key: "time", scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } } : undefined,
        },
        scales: {
          x: { time: false, ...this.whole },
          y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] },
        },
        axes: [this.horizontal(), this.vertical()],
        series: [{}, ...[...series, ...lines].map((_, index) => this.entry(index))],
        bands: kind === "steps" || kind === "areas" ? bands : [],
        hooks: {
          draw: [(plot) => this.overlay(plot)],
          setCursor: [(plot) => this.follow(plot)],
          setSelect: [(plot) => this.selected(plot)],
          setScale: [(plot, key) => { if (key === "x") this.scaled(plot.scales.x); }],
        },
      };
    }

    axis(options) {
      return { stroke: () => css("--faint"), font: "12px system-ui, sans-serif", ...options };
    }

    horizontal() {
      const { bounds, collections } = this.chart;
      const bound = (value) => number(value, value >= 100 ? 0 : value >= 1 ? 1 : 3) + " ms";
      const label = (at, step) => this.isTime ? number(at, decimals(step)) + " s" : bounds[at] == null ? "" : bound(bounds[at]);
      // The strip of collections lies between the plot and the labels.
      const hasStrip = collections.length > 0;
      return this.axis({
        grid: { show: false },
        ticks: { show: !hasStrip, size: hasStrip ? 0 : 5, stroke: () => css("--line"), width: 1 },
        gap: hasStrip ? 14 : 4,
        size: hasStrip ? 40 : 32,
        space: 72,
        values: (_, places, __, ___, step) => places.map((at) => label(at, step)),
        ...(this.isTime ? {} : { incrs: wholeSteps }),
      });
    }

    vertical() {
      const { unit } = this.chart;
      const size = (value) => bytes(value, (n) => (Number.isInteger(n) ? 0 : n < 10 ? 2 : 1));
      const label = (value, step) => unit === "B" ? size(value) : (number(value, decimals(step)) + " " + unit).trim();
      const steps = { "B": powersOfTwo, "": wholeSteps }[unit];
      return this.axis({
        grid: { stroke: () => css("--line"), width: 1 },
        ticks: { size: 4, stroke: () => css("--line"), width: 1 },
        gap: 4,
        size: gutter,
        space: 36,
        values: (_, values, __, ___, step) => values.map((value) => label(value, step)),
        ...(steps ? { incrs: steps } : {}),
      });
    }

    entry(index) {
      const paths = {
        bars: uPlot.paths.bars({ size: [.7, 14, 2] }),
        classes: uPlot.paths.bars({ size: [.92, 200, 1] }),
        steps: uPlot.paths.stepped({ align: 1, extend: true }),
        areas: uPlot.paths.linear(),
      };
      const isLine = !this.isBar && !this.isArea(index);
      return {
        paths: paths[isLine ? "steps" : this.chart.kind],
        stroke: () => this.colour(index),
        fill: isLine ? undefined : () => this.faded(index),
        width: isLine ? 1.5 : 0,
        dash: isLine ? [5, 3] : undefined,
        spanGaps: !this.isBar,
        points: { show: false },
      };
    }

    // Draws the collections, as a strip between the plot and the labels of its axis; and the markers.
    overlay(plot) {
      const { ctx: context, bbox: box } = plot;
      const pixel = devicePixelRatio;
      const right = box.left + box.width;
      context.save();
      context.fillStyle = css("--faint");
      for (const [begin, end] of this.chart.collections) {
        const from = Math.max(box.left, plot.valToPos(begin, "x", true));
        const to = Math.min(right, plot.valToPos(end, "x", true));
        if (from <= right && to >= box.left) context.fillRect(from, box.top + box.height + 3 * pixel, Math.max(to - from, pixel / 2), 7 * pixel);
      }
      context.strokeStyle = css("--focus");
      context.lineWidth = pixel;
      context.setLineDash([2 * pixel, 2 * pixel]);
      for (const [time] of this.chart.marks) {
        const x = plot.valToPos(time, "x", true);
        if (x < box.left || x > right) continue;
        context.beginPath();
        context.moveTo(x, box.top);
        context.lineTo(x, box.top + box.height);
        context.stroke();
      }
      context.restore();
    }

    // Shows the values under the cursor in the legend.
    follow(plot) {
      const { idx, left } = plot.cursor;
      let at = Math.min(idx ?? -1, this.last);
      // A step begins at its time: before it, the one before holds.
      if (this.chart.kind === "steps" && at > 0 && plot.valToPos(this.times[at], "x") > left + .01) at--;
      this.here = left >= 0 ? at : -1;
      this.figure.querySelector(".when").textContent = this.here >= 0 ? this.position(plot, at) : "\u00a0";
      this.outputs.forEach((output, index) => {
        const value = this.here >= 0 ? this.valueAt(index, at) : null;
        output.textContent = value == null ? "" : show[this.chart.unit](value);
      });
    }

    position(plot, at) {
      const { bounds, notes, series, marks, unit } = this.chart;
      if (!this.isTime) return number(bounds[at], 3) + " to " + number(bounds[at + 1], 3) + " ms";
      const span = plot.scales.x.max - plot.scales.x.min;
      const parts = ["at " + number(this.times[at], span < 10 ? 6 : 3) + " s"];
      if (notes[at]) parts.push(notes[at]);
      if (!this.isBar) {
        const shown = series.map((_, index) => (this.boxes[index].checked ? this.valueAt(index, at) ?? 0 : 0));
        parts.push("all " + show[unit](shown.reduce((sum, value) => sum + value, 0)));
      }
      const near = marks.filter(([time]) => Math.abs(plot.valToPos(time, "x") - plot.cursor.left) < 4);
      near.slice(0, 3).forEach(([, text]) => parts.push("marker: " + text));
      return parts.join(", ");
    }

    peers() { return this.isTime ? all.filter((chart) => chart.isTime) : [this]; }

    zoom(min, max) {
      // Labels have at most nine decimals, and times six.
      if (max - min < (this.isTime ? 1e-6 : 1)) return;
      // In a batch the scale is set when this returns; the cursor is placed by it.
      this.peers().forEach(({ plot }) => plot.batch(() => plot.setScale("x", { min, max })));
    }

    reset() { this.peers().forEach(({ plot, whole }) => plot.batch(() => plot.setScale("x", whole))); }

    zoomBy(factor) {
      const { min, max } = this.plot.scales.x;
      const { left } = this.plot.cursor;
      const centre = left >= 0 ? this.plot.posToVal(left, "x") : (min + max) / 2;
      this.zoom(Math.max(this.whole.min, centre - (centre - min) * factor), Math.min(this.whole.max, centre + (max - centre) * factor));
    }

    selected(plot) {
      const { left, width } = plot.select;
      if (width > 0) this.zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
      plot.setSelect({ left: 0, width: 0 }, false);
    }

    scaled({ min, max }) {
      this.figure.dataset.from = min;
      this.figure.dataset.to = max;
      this.figure.classList.toggle("zoomed", max - min < (this.whole.max - this.whole.min) * .999);
    }

    // Draws what is selected in the legend.
    select() {
      this.boxes.forEach((box, index) => { if (!this.isArea(index)) this.plot.setSeries(index + 1, { show: box.checked }); });
      this.plot.setData(this.drawn(), false);
      this.plot.redraw();
    }

    // Moves the cursor to a value, and announces it.
    go(to) {
      if (this.last < 0) return;
      const time = this.times[Math.max(0, Math.min(this.last, to))];
      const { min, max } = this.plot.scales.x;
      if (time < min || time > max) this.zoom(time - (max - min) / 2, time + (max - min) / 2);
      this.plot.setCursor({ left: this.plot.valToPos(time, "x"), top: 0 }, true, true);
      const entries = [...this.figure.querySelectorAll(".legend li")].filter((entry) => entry.querySelector("output").textContent);
      const texts = entries.slice(0, 5).map((entry) => entry.querySelector(".key").textContent + " " + entry.querySelector("output").textContent);
      says.textContent = [this.figure.querySelector(".when").textContent, ...texts].join("; ");
    }

    press(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const { here, last } = this;
      const steps = { ArrowRight: here + 1, ArrowLeft: here - 1, PageDown: here + 20, PageUp: here - 20, Home: 0, End: last };
      const zooms = { "+": () => this.zoomBy(.5), "-": () => this.zoomBy(2), Escape: () => this.reset() };
      if (event.key in steps) this.go(steps[event.key]);
      else if (event.key in zooms) zooms[event.key]();
      else return;
      event.preventDefault();
    }

    connect() {
      this.boxes.forEach((box) => box.addEventListener("change", () => this.select()));
      const search = this.figure.querySelector("input[type=search]");
      search?.addEventListener("input", () => {
        const part = search.value.toLowerCase();
        this.boxes.forEach((box) => { box.checked = box.parentElement.textContent.toLowerCase().includes(part); });
        this.select();
      });
      this.place.addEventListener("keydown", (event) => this.press(event));
      this.place.addEventListener("blur", () => {
        this.plot.setCursor({ left: -10, top: -10 }, true, true);
        says.textContent = "";
      });
      const tools = document.createElement("div");
      tools.className = "tools";
      const buttons = [["Reset", "Show everything", () => this.reset()], ["+", "Zoom in", () => this.zoomBy(.5)], ["\u2212", "Zoom out", () => this.zoomBy(2)]];
      for (const [textContent, title, action] of buttons) {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent, title });
        button.addEventListener("click", action);
        tools.append(button);
      }
      this.figure.prepend(tools);
      const fit = () => this.plot.setSize({ width: this.place.clientWidth, height: this.place.clientHeight });
      new ResizeObserver(fit).observe(this.place);
    }
  }

  JSON.parse(document.getElementById("charts").textContent).forEach((chart) => new Chart(chart));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => all.forEach(({ plot }) => plot.redraw(false)));
})();
