// Documents: found by id prefix, then read, edited, created and deleted.

import { at, get, put, remove, text } from "./api.js";
import { act, ask, button, empty, h, pretty, show } from "./dom.js";

const PAGE = 100;

export function documents(state) {
  let list = { rows: [], next: null, busy: false, title: "" };
  let collection = null;
  let shown = "";
  let open = null;
  let prefix = "";

  const names = () => state.agent.databases.flatMap((database) => database.collections.map((entry) => `${database.name}.${entry.name}`));

  async function find(more) {
    const mine = list = more ? { ...list, busy: true } : { rows: [], next: null, busy: true, title: prefix ? `Ids that begin with “${prefix}”` : "Last changed" };
    state.refresh();
    const query = prefix || more ? `prefix=${encodeURIComponent(prefix)}&limit=${PAGE}&since=${more ? list.next : 0}` : `newest=true&limit=${PAGE}`;
    try {
      const found = await get(`${at("databases", collection, "find")}?${query}`);
      if (mine !== list) return;
      list = { ...list, rows: more ? [...list.rows, ...found.rows] : found.rows, next: found.next, busy: false };
    } catch (error) {
      if (mine === list) list = { ...list, busy: false, error: error.message };
    }
    state.refresh();
  }

  async function read(id) {
    open = { id, busy: true };
    state.refresh();
    try {
      const json = await text(at("databases", collection, "documents", id));
      open = { id, text: pretty(json), serial: Date.now() };
    } catch (error) {
      open = { id, error: error.message };
    }
    state.refresh();
  }

  /** `#/documents/DB.SCOPE.COLLECTION/ID`; the first collection if none is named. */
  function follow() {
    const [, wanted, id] = state.path;
    const known = names();
    const name = known.find((entry) => entry === wanted) ?? known.find((entry) => entry === `${wanted}._default._default`) ?? known.find((entry) => entry.startsWith(`${wanted}.`)) ?? known[0];
    if (name !== collection) {
      collection = name;
      prefix = "";
      if (name) find(false);
    }
    const now = JSON.stringify([collection, id]);
    if (now === shown) return;
    shown = now;
    if (id === undefined) open = null;
    else if (id === "") open = { id: "", text: "{\n  \n}", isNew: true, serial: Date.now() };
    else read(id);
  }

  const href = (id) => `#/documents/${encodeURIComponent(collection)}${id === undefined ? "" : `/${encodeURIComponent(id)}`}`;

  async function save(event) {
    event.preventDefault();
    const id = open.isNew ? document.getElementById("document-id").value : open.id;
    const body = document.getElementById("document-text").value;
    try { JSON.parse(body); } catch (error) {
      open = { ...open, problem: `This is not JSON: ${error.message}`, text: body };
      return state.refresh();
    }
    if (!id) {
      open = { ...open, problem: "A document needs an id.", text: body };
      return state.refresh();
    }
    try {
      await put(at("databases", collection, "documents", id), body);
      await act(`${id} is saved`, async () => {});
      if (open.isNew) location.hash = href(id);
      else await read(id);
      find(false);
    } catch (error) {
      open = { ...open, problem: error.message, text: body };
    }
    state.refresh();
  }

  async function take() {
    const { id } = open;
    const revision = /"_rev": "([^"]+)"/.exec(open.text)?.[1];
    if (!await ask(`Delete ${id}?`, "The deletion is replicated to everybody who has the document.", "Delete it")) return;
    if (await act(`${id} is deleted`, () => remove(`${at("databases", collection, "documents", id)}${revision ? `?rev=${encodeURIComponent(revision)}` : ""}`))) {
      location.hash = href();
      find(false);
    }
  }

  return {
    draw(place) {
      follow();
      const known = names();
      if (!collection) return show(place, h("h1", null, "Documents"), empty("There is no database."));
      show(place,
        h("h1", null, "Documents"),
        h("form", { class: "card find", role: "search", onsubmit: (event) => { event.preventDefault(); prefix = document.getElementById("prefix").value; find(false); } },
          h("div", null, h("label", { for: "collection" }, "Collection"),
            h("select", { id: "collection", onchange: (event) => { location.hash = `#/documents/${encodeURIComponent(event.target.value)}`; } }, known.map((name) => h("option", { value: name, selected: name === collection }, name.replace("._default._default", ""))))),
          h("div", null, h("label", { for: "prefix" }, "Id, or the start of it"), h("input", { id: "prefix", type: "search", spellcheck: "false", autocomplete: "off" })),
          h("button", { class: "primary", type: "submit" }, "Find"),
          h("a", { class: "button", href: href("") }, "New document")),
        h("div", { class: open ? "columns documents" : "columns documents alone" },
          h("section", { class: "card", "data-key": "list", "aria-label": "Documents found" }, h("h2", null, list.title),
            list.error && h("p", { class: "problem", role: "alert" }, list.error),
            list.rows.length ? h("ul", { class: "ids" }, list.rows.map((row) => h("li", { "data-key": row.id }, row.deleted ? h("span", { class: "faint" }, row.id, " (deleted)")
              : h("a", { href: href(row.id), "aria-current": open?.id === row.id ? "true" : null }, row.id), h("code", { class: "faint" }, row.rev.split("-")[0] + (row.rev.includes("-") ? "-" : ""), row.rev.split("-")[1]?.slice(0, 6) ?? ""))))
              : empty(list.busy ? "Looking" : list.next ? "None so far." : "None."),
            list.next !== null && list.next !== undefined && button(list.busy ? "Looking" : "Look for more", () => find(true), { disabled: list.busy })),
          open && editor()));
    },
  };

  function editor() {
    if (open.busy) return h("section", { class: "card", "data-key": "busy" }, empty("Loading"));
    if (open.error) return h("section", { class: "card", "data-key": "error" }, h("h2", null, open.id), h("p", { class: "trouble", role: "alert" }, open.error), h("a", { class: "button", href: href() }, "Close"));
    const area = h("textarea", { id: "document-text", "data-own": true, spellcheck: "false", rows: Math.min(30, Math.max(8, open.text.split("\n").length + 1)), "aria-describedby": "document-problem" });
    area.value = open.text;
    return h("form", { class: "card editor", "data-key": `${open.id} ${open.serial}`, onsubmit: save, "aria-label": open.isNew ? "New document" : `Document ${open.id}` },
      h("h2", null, open.isNew ? "New document" : open.id),
      open.isNew && h("div", null, h("label", { for: "document-id" }, "Id"), h("input", { id: "document-id", autocomplete: "off", spellcheck: "false" })),
      h("label", { for: "document-text" }, "JSON"), area,
      h("p", { id: "document-problem", class: "problem", role: "alert" }, open.problem ?? ""),
      h("p", { class: "buttons" }, h("button", { class: "primary", type: "submit" }, "Save"),
        !open.isNew && button("Read again", () => read(open.id)), !open.isNew && button("Delete", take), h("a", { class: "button", href: href() }, "Close")),
      !open.isNew && h("p", { class: "faint" }, "Saved on top of the revision in _rev. If somebody else saved first, the database's resolver decides, or the save is refused."));
  }
}
