"use strict";
(() => {
  const plot = document.getElementById("plot");
  const { traces, layout } = JSON.parse(document.getElementById("figure").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // Lines and text follow the page's colours; what a bound looks like doesn't change.
  function coloured() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue("--" + name).trim();
    const axis = { gridcolor: colour("line"), linecolor: colour("faint") };
    const line = (trace) => ({ ...trace, line: { ...trace.line, color: colour(trace.meta) } });
    const mark = (trace) => ({ ...trace, marker: { ...trace.marker, line: { ...trace.marker.line, color: colour("ink") } } });
    return [traces.map((trace) => (trace.marker ? mark(trace) : line(trace))), {
      ...layout,
      font: { color: colour("ink"), family: "system-ui, DejaVu Sans, sans-serif", size: 12 },
      hoverlabel: { ...layout.hoverlabel, bgcolor: colour("shade"), bordercolor: colour("faint"), font: { color: colour("ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("faint"), activecolor: colour("ink") },
      xaxis: { ...layout.xaxis, ...axis },
      yaxis: { ...layout.yaxis, ...axis },
    }];
  }
  function draw() {
    Plotly.react(plot, ...coloured(), {
      responsive: true,
      displaylogo: false,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    });
  }
  draw();
  dark.addEventListener("change", draw);
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((details) => { details.open = true; });
    draw();
  });
  addEventListener("afterprint", draw);

  const ops = document.getElementById("ops");
  if (ops) {
    const body = ops.tBodies[0];
    const heads = [...ops.tHead.rows[0].cells];
    const rows = [...body.rows];
    const key = (row, column) => {
      const cell = row.cells[column];
      if (cell.dataset.value === undefined) return cell.textContent;
      return cell.dataset.value === "" ? null : Number(cell.dataset.value);
    };
    // Unknown stays last, whichever way the column is sorted.
    const compare = (column, sign) => (a, b) => {
      const x = key(a, column), y = key(b, column);
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y);
    };
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const numeric = head.classList.contains("number");
      const was = head.getAttribute("aria-sort");
      const next = was === "descending" ? "ascending" : was === "ascending" ? "descending" : numeric ? "descending" : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", next);
      rows.sort(compare(column, next === "ascending" ? 1 : -1));
      body.append(...rows);
    }));
    const filter = document.getElementById("filter");
    const shown = document.getElementById("shown");
    const text = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rows) {
        row.hidden = !words.every((word) => text.get(row).includes(word));
        count += !row.hidden;
      }
      shown.textContent = count === rows.length ? `${count} rows` : `${count} of ${rows.length} rows`;
    });
    // A cut-off cell shows its whole text on hover.
    for (const cell of body.getElementsByTagName("td")) {
      if (cell.textContent.length > 30) cell.title = cell.textContent;
    }
  }

  const levels = document.getElementById("levels");
  if (levels) {
    const cut = () => {
      for (const row of document.getElementById("modules").tBodies[0].rows) {
        row.hidden = Number(row.dataset.depth) > Number(levels.value);
      }
    };
    levels.addEventListener("change", cut);
    cut();
  }
})();
