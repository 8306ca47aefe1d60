// Line charts of the last hour, from samples that the agent keeps.

import { bytes, card, duration, empty, h, rate } from "./dom.js";

const [WIDTH, HEIGHT, BOTTOM] = [320, 96, 14];

export function charts(history) {
  if (!history) return card("The last hour", empty("Loading"));
  if (history.samples.length < 2) return card("The last hour", empty("The agent started to keep figures only seconds ago; come back soon."));
  const figures = columns(history);
  const perSecond = (value) => `${rate(value)}/s`;
  return card("The last hour", h("div", { class: "charts" },
    chart("Documents replicated", figures, [["pushed", "pushed"], ["pulled", "pulled"]], true, perSecond),
    chart("Documents exchanged with peers", figures, [["sent_to_peers", "sent to peers"], ["received_from_peers", "received from peers"]], true, perSecond),
    chart("Bytes on the wire", figures, [["bytes_sent", "sent"], ["bytes_received", "received"]], true, (value) => `${bytes(value)}/s`),
    chart("Plugin calls", figures, [["plugin_calls", "calls"], ["plugin_errors", "errors"]], true, perSecond),
    chart("Lag", figures, [["lag_seconds", "slowest replicator"]], false, duration),
    chart("Memory", figures, [["resident_bytes", "resident"]], false, bytes)));
}

function columns(history) {
  const found = {};
  history.columns.forEach((name, index) => { found[name] = history.samples.map((sample) => sample[index]); });
  return found;
}

/** Turns a counter into a rate per second; where the counter was reset, or peers have left, the rate is 0. */
function steps(times, values) {
  return values.slice(1).map((value, index) => Math.max(0, value - values[index]) / Math.max(1, times[index + 1] - times[index]));
}

function chart(title, figures, lines, isCounter, words) {
  const times = isCounter ? figures.at.slice(1) : figures.at;
  const end = figures.at[figures.at.length - 1];
  // The whole recorded time, up to an hour, but at least five minutes.
  const span = Math.min(3600, Math.max(300, end - figures.at[0]));
  const begin = end - span;
  const series = lines.map(([name, label]) => ({ label, values: isCounter ? steps(figures.at, figures[name]) : figures[name] }));
  const top = Math.max(...series.flatMap((entry) => entry.values), 0);
  const x = (time) => ((time - begin) / span) * WIDTH;
  const y = (value) => HEIGHT - BOTTOM - (top > 0 ? (value / top) * (HEIGHT - BOTTOM - 6) : 0);
  const said = series.map(({ label, values }) => `${label} now ${words(values[values.length - 1])}`).join(", ");
  return h("figure", { class: "chart", "data-key": title },
    h("figcaption", null, h("strong", null, title), h("span", { class: "faint" }, ` at most ${words(top)}`)),
    h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${said}; at most ${words(top)}` },
      h("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
      h("text", { class: "tick", x: 0, y: HEIGHT - 2 }, `${duration(span).replace(/ 0 min$| \d+ s$/, "")} ago`),
      h("text", { class: "tick", x: WIDTH, y: HEIGHT - 2, "text-anchor": "end" }, "now"),
      series.map(({ values }, index) => {
        const points = values.map((value, at) => `${x(times[at]).toFixed(1)},${y(value).toFixed(1)}`);
        const base = HEIGHT - BOTTOM;
        return [index === 0 && h("path", { class: "area", d: `M${x(times[0]).toFixed(1)},${base}L${points.join("L")}L${WIDTH},${base}Z` }),
          h("polyline", { class: `line line-${index}`, points: points.join(" ") })];
      })),
    h("p", { class: "legend" }, series.map(({ label, values }, index) => h("span", null, h("span", { class: `key key-${index}`, "aria-hidden": "true" }), ` ${label} `, h("b", null, words(values[values.length - 1]))))));
}

