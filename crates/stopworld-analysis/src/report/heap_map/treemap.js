// Draws the treemap in #map by d3-hierarchy, from the tree in #tree. A click on a box that has boxes inside shows it alone.
"use strict";
(() => {
  const map = document.getElementById("map"), path = document.getElementById("path"), says = document.getElementById("says");
  const sizes = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  const bytes = (value) => {
    let size = 0;
    while (value >= 1023.5 && size < sizes.length - 1) { value /= 1024; size++; }
    return value.toLocaleString("en-US", { maximumSignificantDigits: 3 }) + " " + sizes[size];
  };
  const root = d3.hierarchy(JSON.parse(document.getElementById("tree").textContent), (node) => node.children)
    .sum((node) => node.own)
    .sort((a, b) => b.value - a.value);
  // Levels that are shown at a time.
  const levels = 3;
  const title = (node) => `${node.data.name}: ${bytes(node.value)}, ${(100 * node.value / (root.value || 1)).toFixed(1)} %`;
  // The type selects the colour: its name is what precedes the address, or follows the number.
  const colour = (node) => {
    const type = node.data.name.replace(/ 0x[0-9a-f]+$/, "").replace(/^\d+ × /, "");
    let hash = 0;
    for (const letter of type) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
    return `var(--g${hash % 5})`;
  };
  let shown = root;

  const show = (node, focus) => {
    shown = node;
    const box = map.getBoundingClientRect();
    const visible = node.copy();
    visible.each((inner) => { if (inner.depth >= levels) delete inner.children; });
    d3.treemap().size([box.width, box.height]).paddingTop((inner) => (inner.depth ? 17 : 0)).paddingInner(1).paddingRight(2).paddingBottom(2).paddingLeft(2)(visible);
    const originals = new Map();
    const pair = (copy, original) => {
      originals.set(copy, original);
      (copy.children ?? []).forEach((child, index) => pair(child, original.children[index]));
    };
    pair(visible, node);
    map.replaceChildren(...visible.descendants().filter((inner) => inner.depth && inner.x1 - inner.x0 > 2 && inner.y1 - inner.y0 > 2).map((inner) => {
      const original = originals.get(inner), button = document.createElement("button"), name = document.createElement("span");
      button.type = "button";
      button.title = title(original);
      button.setAttribute("aria-label", button.title);
      name.textContent = original.data.name;
      button.append(name);
      button.style.left = inner.x0 + "px";
      button.style.top = inner.y0 + "px";
      button.style.width = inner.x1 - inner.x0 + "px";
      button.style.height = inner.y1 - inner.y0 + "px";
      button.style.setProperty("--c", colour(original));
      if (original.children) {
        button.className = "inner";
        button.onclick = () => show(original, true);
      }
      return button;
    }));
    path.replaceChildren(...node.ancestors().reverse().map((above) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = title(above) + (above === node ? "" : " ›");
      button.onclick = () => show(above, true);
      return button;
    }));
    if (focus) {
      path.lastElementChild.focus();
      says.textContent = title(node);
    }
  };
  show(root, false);
  let width = map.clientWidth;
  new ResizeObserver(() => { if (map.clientWidth !== width) { width = map.clientWidth; show(shown, false); } }).observe(map);
})();
