// Elements, updates that do not disturb the reader, and formatting of figures. Text is always inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_NAMES = new Set(["svg", "g", "rect", "path", "text", "line", "circle", "polyline"]);

/** h("p", { class: "x", onclick }, "text", child): props that begin with "on" are handlers, `title:svg` belongs to SVG. */
export function h(name, props, ...children) {
  const inSVG = SVG_NAMES.has(name) || name.endsWith(":svg");
  const node = inSVG ? document.createElementNS(SVG, name.replace(":svg", "")) : document.createElement(name);
  node.handlers = {};
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node[key] = node.handlers[key] = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(node, child);
    else if (child instanceof Node) node.append(child);
    else if (child !== undefined && child !== null && child !== false) node.append(String(child));
  }
}

/** Updates the children of a node to match new ones, changing only what differs: focus, selection and open details are kept. */
export function show(parent, ...children) {
  const wanted = document.createDocumentFragment();
  add(wanted, children);
  morphChildren(parent, wanted);
}

function morphChildren(old, wanted) {
  const news = [...wanted.childNodes];
  for (let index = 0; index < news.length; index += 1) {
    const next = news[index];
    const key = next.dataset?.key;
    let now = old.childNodes[index];
    if (key !== undefined && now?.dataset?.key !== key) {
      const found = [...old.childNodes].slice(index).find((node) => node.dataset?.key === key);
      if (found) {
        old.insertBefore(found, now ?? null);
        now = found;
      } else if (now) {
        now = old.insertBefore(next, now);
        continue;
      }
    }
    if (!now) old.append(next);
    else if (now.nodeType !== next.nodeType || now.nodeName !== next.nodeName || now.dataset?.key !== key) old.replaceChild(next, now);
    else morph(now, next);
  }
  while (old.childNodes.length > news.length) old.lastChild.remove();
}

function morph(old, next) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) return;
  const mine = old.nodeName === "DETAILS" ? ["open"] : [];
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && !mine.includes(name)) old.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value && !mine.includes(name)) old.setAttribute(name, value);
  for (const name of Object.keys(old.handlers ?? {})) if (!next.handlers?.[name]) old[name] = null;
  for (const [name, handler] of Object.entries(next.handlers ?? {})) old[name] = handler;
  old.handlers = next.handlers ?? {};
  // The element fills in its own content later.
  if (old.hasAttribute("data-own")) return;
  if (old.nodeName === "PROGRESS") old.value = Number(next.getAttribute("value") ?? 0);
  morphChildren(old, next);
}

// Formatting

const exact = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const count = (value) => (value === null || value === undefined ? "–" : exact.format(value));
export const plural = (value, word, many = word + "s") => `${count(value)} ${value === 1 ? word : many}`;

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let amount = value;
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${short.format(amount)} ${units[unit]}`;
}

export const rate = (value) => (value >= 100 ? exact.format(Math.round(value)) : short.format(value));
export const milliseconds = (value) => (value === null || value === undefined ? "–" : `${value >= 10 ? Math.round(value) : Number(value.toPrecision(2))} ms`);

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60 ? `${whole % 60} s` : ""}`.trim();
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** A time reported by the agent, in words and exactly. */
export function ago(time) {
  if (!time) return h("span", null, "never");
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  return h("time", { datetime: time, title: time }, seconds < 2 ? "just now" : `${duration(seconds)} ago`);
}

export const clock = (time) => new Date(time).toLocaleTimeString("en-GB");

// Parts

export const card = (title, ...rest) => h("section", { class: "card" }, title && h("h2", null, title), ...rest);

export const empty = (words) => h("p", { class: "empty" }, words);

export const pairs = (list, look = "") => h("dl", { class: `pairs ${look}` }, list.filter(Boolean).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));

/** A table that scrolls horizontally if it is too wide, also by keyboard. */
export function table(caption, heads, lines, key) {
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption, "data-key": key },
    h("table", null,
      h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", null, lines)));
}

export const button = (words, onclick, props = {}) => h("button", { type: "button", onclick, ...props }, words);

export function notice(words, isProblem) {
  const place = document.getElementById("notices");
  const note = h("p", { class: isProblem ? "notice problem" : "notice" }, words);
  place.append(note);
  setTimeout(() => note.remove(), isProblem ? 12000 : 4000);
}

/** Runs a button's action, and reports the result. */
export async function act(words, action) {
  try {
    const said = await action();
    notice(typeof said === "string" ? said : words);
    return true;
  } catch (error) {
    notice(error.message, true);
    return false;
  }
}

const dialog = () => document.getElementById("dialog");

/** Shows a dialog that can be closed. */
export function front(title, ...rest) {
  const box = dialog();
  box.replaceChildren(h("div", { class: "head" }, h("h2", { id: "dialog-title" }, title), button("Close", () => box.close(), { class: "quiet" })),
    h("div", { class: "front" }, rest));
  if (!box.open) box.showModal();
}

/** Asks for confirmation before an action that cannot be undone, or that stops work. */
export function ask(title, words, verb) {
  return new Promise((answer) => {
    const box = dialog();
    let said = false;
    box.replaceChildren(h("div", { class: "head" }, h("h2", { id: "dialog-title" }, title)), h("div", { class: "front" }, h("p", null, words),
      h("p", { class: "buttons" },
        button(verb, () => { said = true; box.close(); }, { class: "primary", autofocus: true }),
        button("Cancel", () => box.close()))));
    box.addEventListener("close", () => answer(said), { once: true });
    box.showModal();
  });
}

/** Formats JSON text, preserving every number as written: digits beyond the precision of JavaScript's numbers are kept. */
export function pretty(json) {
  let out = "";
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  for (let index = 0; index < tokens.length; index += 1) {
    const token = tokens[index];
    if ((token === "{" || token === "[") && (tokens[index + 1] === "}" || tokens[index + 1] === "]")) {
      out += token + tokens[index += 1];
    } else if (token === "{" || token === "[") {
      depth += 1;
      out += token + line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      out += line() + token;
    } else if (token === ",") out += "," + line();
    else out += token === ":" ? ": " : token;
  }
  return out;
}
