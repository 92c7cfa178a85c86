"use strict";
(async () => {
  // Light and dark: what the system prefers, until the button says otherwise.
  const root = document.documentElement;
  const button = document.querySelector("button.theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.hidden = false;
  label();

  // Plotly is carried compressed. As text of a script element it runs only if it is what the page's policy names.
  const letters = atob(document.getElementById("library").textContent), packed = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) packed[at] = letters.charCodeAt(at);
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);

  // Figures are described in light colours; each is a CSS variable of another value in the dark.
  const { colours, figures } = JSON.parse(document.getElementById("figures").textContent);
  const painted = (value, isColour) => {
    if (Array.isArray(value)) return value.map((part) => painted(part, isColour));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, painted(part, /colou?r/.test(key))]));
    }
    const name = isColour && colours[value];
    return name ? getComputedStyle(root).getPropertyValue(`--${name}`).trim() : value;
  };

  // Ticks at round rows, so many as there is room for, with the event time there.
  const day = 86400000;
  const written = (time, days) => {
    const look = days > 300 ? { month: "short", year: "numeric" } : days > 0.25 ? { day: "numeric", month: "short" } : {};
    if (days <= 3) Object.assign(look, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    if (days <= 0.25) look.second = "2-digit";
    return new Date(time).toLocaleString("en-GB", { ...look, timeZone: "UTC" });
  };
  const timeAt = ({ rows, times }, row) => {
    const after = rows.findIndex((at) => at >= row);
    if (after <= 0) return times[after < 0 ? times.length - 1 : 0];
    return times[after - 1] + ((times[after] - times[after - 1]) * (row - rows[after - 1])) / (rows[after] - rows[after - 1]);
  };
  const axisOf = (figure, [first, last], width) => {
    const rough = (last - first) / Math.max(2, Math.floor(width / 90)), size = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, size * [1, 2, 5, 10].find((times) => times * size >= rough));
    const tickvals = [];
    for (let row = Math.ceil(first / step) * step; row <= last; row += step) tickvals.push(row);
    const days = figure.times && (timeAt(figure, last) - timeAt(figure, first)) / day;
    const ticktext = tickvals.map((row, at) => {
      const text = (at ? "" : "row ") + row.toLocaleString("en-US");
      return figure.times ? `${text}<br>${written(timeAt(figure, row), days)}` : text;
    });
    return { range: [first, last], tickvals, ticktext };
  };

  const plots = Object.keys(figures).map((id) => document.getElementById(id));
  const along = plots.filter((plot) => plot.closest(".along"));
  const touched = matchMedia("(pointer: coarse)").matches;
  const config = { displaylogo: false, modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };
  // A line that nobody sees, so that the list beside the pointer has the event time.
  const timesOf = ({ rows, times, layout }) => times ? [{
    x: rows, y: rows.map(() => layout.yaxis.type === "log" ? 10 ** layout.yaxis.range[0] : layout.yaxis.range[0]),
    customdata: times.map((time) => new Date(time).toISOString().slice(0, 19).replace("T", " ")),
    name: "event time", hovertemplate: "%{customdata}", mode: "markers", marker: { opacity: 0 },
  }] : [];
  const draw = async (plot) => {
    const figure = figures[plot.id], layout = painted(figure.layout);
    layout.width = plot.clientWidth;
    const narrow = figure.narrow.filter(([below]) => layout.width < below).map(([, parts]) => Object.entries(painted(parts)));
    for (const [key, value] of narrow.flat()) {
      layout[key] = key.endsWith("axis") ? { ...layout[key], ...value } : value;
    }
    if (along.includes(plot)) Object.assign(layout.xaxis, axisOf(figure, figure.range ?? layout.xaxis.range, layout.width));
    layout.dragmode = touched || !along.includes(plot) ? false : "zoom";
    config.displayModeBar = !touched && along.includes(plot);
    config.toImageButtonOptions = { format: "svg", filename: plot.id.replace("plot-", "") };
    await Plotly.react(plot, [...timesOf(figure), ...painted(figure.data)], layout, config);
  };
  const spread = (plot, range) => {
    figures[plot.id].range = range;
    const axis = Object.entries(axisOf(figures[plot.id], range, plot.clientWidth));
    return Plotly.relayout(plot, Object.fromEntries(axis.map(([key, value]) => [`xaxis.${key}`, value])));
  };
  let drawing = 0;
  const drawAll = async () => {
    drawing += 1;
    root.dataset.drawn = "no";
    for (const plot of plots) {
      await draw(plot);
      await new Promise((done) => setTimeout(done)); // What is drawn is seen before the rest is.
    }
    drawing -= 1;
    if (!drawing) root.dataset.drawn = "yes";
  };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; label(); drawAll(); });
  system.addEventListener("change", () => { label(); drawAll(); });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });

  // All pictures along the stream are of the same rows: they are looked at, and zoomed into, together.
  const look = (row, but) => {
    for (const plot of along) if (plot !== but) Plotly.Fx.hover(plot, row === null ? [] : { xval: row }, "xy");
  };
  let shown = null;
  await drawAll();
  for (const plot of along) {
    plot.on("plotly_hover", ({ event, points }) => { if (event?.isTrusted) { shown = points[0].x; look(shown, plot); } });
    plot.on("plotly_unhover", ({ event }) => { if (event?.isTrusted) look(null, plot); });
    plot.on("plotly_relayout", (changed) => {
      if ("xaxis.tickvals" in changed) return;
      const first = changed["xaxis.range[0]"] ?? changed["xaxis.range"]?.[0], last = changed["xaxis.range[1]"] ?? changed["xaxis.range"]?.[1];
      for (const other of along) spread(other, first === undefined ? figures[other.id].layout.xaxis.range : [first, last]);
    });
    const card = plot.closest("figure"), keys = plot.parentElement;
    const rows = [...card.querySelectorAll("tbody tr")], head = [...card.querySelectorAll("thead th")];
    keys.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !rows.length) return;
      event.preventDefault();
      const places = rows.map((row) => Number(row.dataset.row));
      const at = shown === null ? 0 : Math.min(rows.length - 1, Math.max(0, places.findIndex((row) => row >= shown) + step));
      shown = places[at];
      look(shown);
      card.querySelector(".said").textContent = [...rows[at].children].map((cell, i) => `${head[i].textContent} ${cell.textContent}`).join(", ");
    });
    keys.addEventListener("blur", () => look(null));
  }
})();
