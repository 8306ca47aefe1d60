// The most recent log lines, as they arrive.

import { clock, h, plural, show } from "./dom.js";

const LEVELS = ["trace", "debug", "info", "notice", "warning", "error", "critical"];
const OWN = new Set(["number", "time", "level", "domain", "message"]);

export function log(state) {
  let level = 0;
  let words = "";
  let frozen = null;

  const fields = (line) => Object.entries(line).filter(([name]) => !OWN.has(name));
  const fits = (line) => LEVELS.indexOf(line.level) >= level
    && (!words || JSON.stringify(line).toLowerCase().includes(words.toLowerCase()));

  function draw(place) {
    const all = frozen ?? state.lines;
    const found = all.filter(fits);
    const list = place.querySelector(".log");
    const follows = !list || list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    show(place,
      h("h1", null, "Log"),
      h("form", { class: "card find", role: "search", onsubmit: (event) => event.preventDefault() },
        h("div", null, h("label", { for: "level" }, "Level"), h("select", { id: "level", onchange: (event) => { level = Number(event.target.value); state.refresh(); } },
          LEVELS.map((name, index) => h("option", { value: index, selected: index === level }, index === 0 ? "all" : `${name} and above`)))),
        h("div", null, h("label", { for: "words" }, "Contains"), h("input", { id: "words", type: "search", autocomplete: "off", oninput: (event) => { words = event.target.value; state.refresh(); } })),
        h("button", { type: "button", "aria-pressed": frozen ? "true" : "false", onclick: () => { frozen = frozen ? null : [...state.lines]; state.refresh(); } }, frozen ? "Go on" : "Pause")),
      h("p", { class: "faint" }, `${plural(found.length, "line")} of the last ${all.length}. The levels are set by log in the configuration.`),
      h("div", { class: "log card", role: "log", "aria-live": "off", tabindex: "0", "aria-label": "Lines of the log, the newest last" },
        found.map((line) => h("p", { class: `line ${line.level}`, "data-key": String(line.number) },
          h("time", { datetime: line.time, title: line.time }, clock(line.time)), " ", h("span", { class: "level" }, line.level), " ", h("span", { class: "domain" }, line.domain), " ",
          h("span", { class: "said" }, line.message), fields(line).map(([name, value]) => [" ", h("span", { class: "field" }, `${name}=`, h("b", null, String(value)))])))));
    const now = place.querySelector(".log");
    if (follows && !frozen) now.scrollTop = now.scrollHeight;
  }

  return { draw, line: () => state.refresh() };
}
