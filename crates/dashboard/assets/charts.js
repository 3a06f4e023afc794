// Draws the charts of a page with uPlot. All share the cursor; a dash pattern tells lines apart without their colour.
"use strict";
window.weirCharts = (() => {
  const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"];
  const DARK_COLOURS = ["#56B4E9", "#E69F00", "#009E73", "#CC79A7"];
  const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  let data = null;
  let plots = [];

  const digits = (value) => String(Number(value.toPrecision(3)));
  const scaled = (value, steps) => {
    for (const [limit, factor, unit] of steps) {
      if (Math.abs(value) < limit) { return digits(value / factor) + unit; }
    }
    return digits(value);
  };
  const MICROS = [[1e3, 1, " us"], [1e6, 1e3, " ms"], [Infinity, 1e6, " s"]];
  const BYTES = [
    [1024, 1, " B"], [1048576, 1024, " KiB"], [1073741824, 1048576, " MiB"], [Infinity, 1073741824, " GiB"],
  ];
  const COUNTS = [[1e3, 1, ""], [1e6, 1e3, " k"], [Infinity, 1e6, " M"]];
  const format = (unit, value) => {
    if (value === null || value === undefined) { return "-"; }
    if (value === 0) { return "0"; }
    switch (unit) {
      case "bytes": return scaled(value, BYTES);
      case "micros": return scaled(value, MICROS);
      case "percent": return digits(value) + " %";
      case "seconds": return digits(value) + " s";
      default: return scaled(value, COUNTS);
    }
  };
  const pad = (number) => String(number).padStart(2, "0");
  const utc = (seconds) => {
    const time = new Date(seconds * 1000);
    return pad(time.getUTCHours()) + ":" + pad(time.getUTCMinutes()) + ":" + pad(time.getUTCSeconds());
  };

  const times = () => {
    const lines = data.charts.flatMap((chart) => chart.values);
    const length = Math.max(0, ...lines.map((values) => values.length));
    return Array.from({ length }, (_, at) => data.from + at * data.step);
  };

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Events, as vertical lines with their words.
  const marks = (plot) => {
    const context = plot.ctx;
    context.save();
    context.strokeStyle = style("--soft");
    context.fillStyle = style("--soft");
    context.font = "11px sans-serif";
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    for (const [at, words] of data.marks) {
      const x = plot.valToPos(at, "x", true);
      if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) { continue; }
      context.setLineDash([3, 3]);
      context.beginPath();
      context.moveTo(x, plot.bbox.top);
      context.lineTo(x, plot.bbox.top + plot.bbox.height);
      context.stroke();
      context.fillText(words.slice(0, 24), x + 3, plot.bbox.top + 11);
    }
    context.restore();
  };

  const draw = (figure, chart) => {
    const place = figure.querySelector(".plot");
    place.replaceChildren();
    if (!chart || chart.names.length === 0) { return null; }
    const isDark = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number)[0] < 128;
    const colours = isDark ? DARK_COLOURS : COLOURS;
    const axis = { stroke: style("--soft"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") } };
    const series = chart.names.map((name, at) => ({
      label: name,
      stroke: colours[at % colours.length],
      width: 2,
      dash: DASHES[at % DASHES.length],
      points: { show: false },
      value: (_, value) => format(chart.unit, value),
    }));
    return new uPlot({
      width: Math.max(200, place.clientWidth),
      height: 150,
      cursor: { sync: { key: "weir" } },
      scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low || 0), (high || 1) * 1.08] } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((tick) => utc(tick).slice(0, 5)), space: 60, size: 32 },
        { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => format(chart.unit, tick)) },
      ],
      series: [{ label: "time", value: (_, time) => (time === null ? "-" : utc(time)) }, ...series],
      hooks: { draw: [marks] },
    }, [times(), ...chart.values], place);
  };

  const drawAll = () => {
    if (!data) { return; }
    plots.forEach((plot) => plot && plot.destroy());
    plots = figures.map((figure) => draw(figure, data.charts[Number(figure.dataset.chart)]));
  };

  const add = (tail) => {
    const start = Math.round((tail.from - data.from) / data.step);
    const most = Math.max(...data.charts.flatMap((chart) => chart.values.map((values) => values.length)), 1);
    data.charts.forEach((chart, at) => {
      chart.summary = tail.charts[at].summary;
      chart.values.forEach((values, line) => values.splice(start, values.length, ...tail.charts[at].values[line]));
    });
    const length = Math.max(...data.charts.flatMap((chart) => chart.values.map((values) => values.length)), 1);
    const gone = Math.max(0, length - most);
    data.charts.forEach((chart) => chart.values.forEach((values) => values.splice(0, gone)));
    data.from += gone * data.step;
    data.marks = data.marks.filter(([at]) => at >= data.from && at < tail.from).concat(tail.marks);
  };

  const same = (tail) => data && data.step === tail.step && data.charts.length === tail.charts.length
    && data.charts.every((chart, at) => chart.names.join() === tail.charts[at].names.join());

  const take = (charts, full) => {
    if (full || !same(charts)) {
      data = charts;
      drawAll();
    } else {
      add(charts);
      const xs = times();
      plots.forEach((plot, at) => plot && plot.setData([xs, ...data.charts[at].values]));
    }
    figures.forEach((figure) => {
      const chart = data.charts[Number(figure.dataset.chart)];
      if (chart) { figure.querySelector(".summary").textContent = chart.summary; }
    });
  };

  let resized = 0;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawAll, 150); });
  return { take, dress: drawAll };
})();
