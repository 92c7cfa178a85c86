"use strict";
(() => {
  // Light and dark: what the system prefers, until the button says otherwise.
  const root = document.documentElement;
  const button = document.querySelector("button.theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); });
  system.addEventListener("change", label);
  label();

  // A line at the pointer, in all pictures along the stream, and the values there, taken from the tables.
  const charts = [...document.querySelectorAll("figure.along")].map((figure) => {
    const rows = [...figure.querySelectorAll("tbody tr")];
    return {
      plot: figure.querySelector(".plot"),
      cross: figure.querySelector(".cross"),
      readout: figure.querySelector(".readout"),
      first: Number(figure.dataset.first),
      last: Number(figure.dataset.last),
      head: [...figure.querySelectorAll("thead th")].map((cell) => cell.textContent),
      rows,
      keys: rows.map((row) => Number(row.dataset.row)),
    };
  });
  const place = (keys, row) => {
    let low = 0, high = keys.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (keys[middle] < row) low = middle + 1; else high = middle;
    }
    return low > 0 && row - keys[low - 1] < keys[low] - row ? low - 1 : low;
  };
  const visible = (plot) => [...plot.querySelectorAll("svg")].find((svg) => svg.getBoundingClientRect().width > 0);
  const show = (row) => {
    for (const chart of charts) {
      const svg = visible(chart.plot);
      if (!svg || !chart.keys.length) continue;
      const at = place(chart.keys, row);
      const left = Number(svg.dataset.left), right = Number(svg.dataset.right);
      const share = (chart.keys[at] - chart.first) / (chart.last - chart.first || 1);
      chart.cross.style.left = `${(left + share * (right - left)) * svg.getBoundingClientRect().width}px`;
      chart.cross.hidden = false;
      const cells = [...chart.rows[at].children].map((cell) => cell.textContent);
      chart.readout.textContent = cells.map((cell, i) => (i && chart.head[i] !== "event time" ? `${chart.head[i]} ${cell}` : i ? cell : `row ${cell}`)).join("   ");
    }
  };
  const hide = () => {
    for (const chart of charts) { chart.cross.hidden = true; chart.readout.textContent = ""; }
  };
  let shown = null;
  for (const chart of charts) {
    chart.plot.addEventListener("pointermove", (event) => {
      const svg = visible(chart.plot);
      const box = svg.getBoundingClientRect();
      const left = Number(svg.dataset.left), right = Number(svg.dataset.right);
      const share = ((event.clientX - box.left) / box.width - left) / (right - left);
      shown = chart.first + Math.min(1, Math.max(0, share)) * (chart.last - chart.first);
      show(shown);
    });
    chart.plot.addEventListener("pointerleave", hide);
    chart.plot.addEventListener("blur", hide);
    chart.plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !chart.keys.length) return;
      event.preventDefault();
      const at = shown === null ? 0 : place(chart.keys, shown) + step;
      shown = chart.keys[Math.min(chart.keys.length - 1, Math.max(0, at))];
      show(shown);
    });
  }
})();
