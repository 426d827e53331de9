// The arrow keys move between the points of the focused chart, and the point's text is announced.
for (const picture of document.querySelectorAll("svg[data-points]")) {
  const points = picture.getElementsByClassName("point");
  const says = document.getElementById("says");
  let here = -1;
  const go = (to) => {
    if (!points.length) return;
    if (points[here]) points[here].classList.remove("here");
    here = Math.max(0, Math.min(points.length - 1, to));
    points[here].classList.add("here");
    says.textContent = points[here].querySelector("title").textContent;
  };
  picture.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: here + 1, ArrowLeft: here - 1, PageDown: here + 20, PageUp: here - 20, Home: 0, End: points.length - 1 };
    if (event.key in steps) { event.preventDefault(); go(steps[event.key]); }
  });
  picture.addEventListener("blur", () => {
    if (points[here]) points[here].classList.remove("here");
    says.textContent = "";
  });
}
