// Removes deselected bands from the stack and rescales the axis to the rest.
(() => {
  const series = JSON.parse(document.getElementById("series").textContent);
  const picture = document.getElementById("picture");
  const areas = picture.querySelectorAll("#areas path");
  const boxes = [...document.querySelectorAll("input[data-band]")];
  const words = document.getElementById("words");
  const figures = document.getElementById("figures");
  const lines = picture.querySelectorAll("path.figure");
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const bytes = (n) => { let u = 0; while (n >= 1024 && u < 5) { n /= 1024; u++; } return n.toFixed(u && n < 99.95 ? (n < 9.995 ? 2 : 1) : 0) + " " + units[u]; };
  const nice = (n) => { let unit = 1; while (n / unit >= 1024) unit *= 1024; let step = 1; while (unit * step < n) step *= 2; return Math.max(4, unit * step); };
  const draw = () => {
    const shown = boxes.map((box) => box.checked);
    const all = figures.checked && lines.length > 0;
    const totals = series.x.map((_, i) => series.bands.reduce((sum, band, b) => sum + (shown[b] ? band[i] : 0), 0));
    const top = all ? series.top : nice(Math.max(0, ...totals));
    const y = (value) => (series.above + (1 - value / top) * (series.zero - series.above)).toFixed(1);
    const ground = series.x.map(() => 0);
    areas.forEach((area, b) => {
      if (!shown[b] || !series.x.length) { area.setAttribute("d", ""); return; }
      const below = series.x.map((x, i) => x + "," + y(ground[i]));
      const above = series.x.map((x, i) => x + "," + y(ground[i] += series.bands[b][i]));
      area.setAttribute("d", "M" + above.join("L") + "L" + below.reverse().join("L") + "Z");
    });
    lines.forEach((line) => { line.style.display = all ? "" : "none"; });
    for (const text of picture.querySelectorAll("text[data-share]")) text.textContent = bytes(top * text.dataset.share);
  };
  boxes.forEach((box) => box.addEventListener("change", draw));
  figures.addEventListener("change", draw);
  words.addEventListener("input", () => {
    const part = words.value.toLowerCase();
    boxes.forEach((box) => { box.checked = box.parentElement.textContent.toLowerCase().includes(part); });
    draw();
  });
})();
