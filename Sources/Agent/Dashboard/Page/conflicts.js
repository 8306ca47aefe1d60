// Conflicts: pending and decided ones, and a single conflict field by field: base, local, remote, and the result.

import { at, get, post, rows } from "./api.js";
import { act, ago, button, count, empty, h, milliseconds, pairs, show, table } from "./dom.js";

const MOST = 100;
const WORDS = { local: "the local document is kept", remote: "the remote document is taken", merged: "both are merged", delete: "the document is deleted" };

export function conflicts(state) {
  let list = null;
  let chosen = null;
  let figure = "";
  let asked = "";
  let rehearsal = null;

  const tellError = (error) => { list = list ?? { rows: [], more: false }; list.error = error.message; };

  function read() {
    rows(`api/conflicts?limit=${MOST}`, MOST * 4).then((found) => { list = found; }, tellError).finally(() => state.refresh());
  }

  /** `#/conflicts/DB/NUMBER-or-ID/STATE` */
  function choose() {
    const [, database, id, kind] = state.path;
    const key = JSON.stringify([database, id, kind, figure]);
    if (key === asked) return;
    asked = key;
    if (!id) {
      chosen = null;
      return;
    }
    get(`${at("conflicts", id)}?db=${encodeURIComponent(database)}&limit=${MOST}`).then((found) => {
      chosen = found.find((row) => (kind === "decided" ? row.state === "decided" && String(row.number) === id : row.state === "pending" && row.id === id)) ?? { gone: true };
    }, (error) => { chosen = { gone: true, error: error.message }; }).finally(() => state.refresh());
  }

  async function rehearse(event) {
    event.preventDefault();
    rehearsal = { busy: true };
    state.refresh();
    try {
      rehearsal = await post("api/rehearsal", document.getElementById("candidate").value);
    } catch (error) {
      rehearsal = { error: error.message };
    }
    state.refresh();
  }

  /** The source of the existing plugin, as a starting point. */
  const begin = (event) => act("", async () => {
    const name = event.target.value;
    if (!name) return "Write or paste a resolver";
    const found = await get(at("plugins", name, "source"));
    document.getElementById("candidate").value = found.files[0].text;
    return `${name} is only tried out: the plugin itself stays as it is`;
  });

  function stage() {
    const resolvers = state.agent.plugins.filter((plugin) => plugin.version && plugin.hooks.includes("resolve"));
    return h("section", { class: "card", "data-key": "stage" }, h("details", null, h("summary", null, "Rehearse another resolver on the decided conflicts"),
      h("form", { class: "editor", onsubmit: rehearse },
        h("label", { for: "begin" }, "Start from"), h("select", { id: "begin", onchange: begin }, h("option", { value: "" }, "an empty page"), resolvers.map((plugin) => h("option", { value: plugin.name }, plugin.name))),
        h("label", { for: "candidate" }, "The candidate, in Lua"), h("textarea", { id: "candidate", "data-own": true, rows: 12, spellcheck: "false" }),
        h("p", { class: "buttons" }, h("button", { type: "submit", class: "primary", disabled: rehearsal?.busy }, rehearsal?.busy ? "Running" : "Rehearse"),
          h("span", { class: "faint" }, "It runs in the real sandbox over the last 200 conflicts of each database, and changes nothing."))),
      h("div", { role: "status" }, rehearsal?.error && h("pre", { class: "trouble" }, rehearsal.error),
        rehearsal?.conflicts && outcomes(rehearsal))));
  }

  return {
    draw(place) {
      const now = JSON.stringify(state.agent.databases.map((database) => [database.conflicts_pending, database.conflicts_decided]));
      if (now !== figure) {
        figure = now;
        read();
      }
      choose();
      const pending = list?.rows.filter((row) => row.state === "pending") ?? [];
      const decided = list?.rows.filter((row) => row.state === "decided") ?? [];
      show(place,
        h("header", { class: "row" }, h("h1", null, "Conflicts"), h("span", { class: "spring" }),
          button("Run the resolvers again", () => act("The resolvers are being run again", () => post("api/conflicts/retry")))),
        list?.error && h("p", { class: "problem", role: "alert" }, list.error),
        chosen && detail(chosen),
        list?.rows.some((row) => row.state === "decided") && stage(),
        !list ? empty("Loading") : [
          h("section", { class: "card", "data-key": "pending" }, h("h2", null, "Waiting for a resolver"),
            pending.length ? table("Pending conflicts", ["Document", "Database", "Plugin", "Why", "Tries", "Since"], pending.map((row) => h("tr", { "data-key": `${row.database} ${row.collection} ${row.id}` },
              h("td", null, open(row, row.id, "pending")), h("td", null, `${row.database}.${row.collection}`.replace("._default._default", "")), h("td", null, row.plugin ?? "–"), h("td", { class: "words" }, row.error ?? "not decided yet"), h("td", { class: "figure" }, count(row.tries)), h("td", null, ago(row.since))))) : empty("No conflicts are waiting.")),
          h("section", { class: "card", "data-key": "decided" }, h("h2", null, "Decided"),
            decided.length ? [table("Decided conflicts, the newest first", ["Document", "Database", "Decision", "By", "Shadow", "Took", "When"], decided.map((row) => h("tr", { "data-key": `${row.database} ${row.number}` },
              h("td", null, open(row, row.number, "decided")), h("td", null, `${row.database}.${row.collection}`.replace("._default._default", "")), h("td", null, WORDS[row.decision] ?? row.decision), h("td", null, by(row)),
              h("td", null, row.shadow ? h("span", { class: row.shadow.outcome === "same" ? "pill ok" : "pill attention" }, row.shadow.outcome) : "–"), h("td", { class: "figure" }, milliseconds(row.duration_ms)), h("td", null, ago(row.at))))),
            h("p", { class: "faint" }, `The last ${MOST} of each database.`)] : empty("No conflict has been decided, or none is kept."))]);
    },
  };
}

const open = (row, key, kind) => h("a", { href: `#/conflicts/${encodeURIComponent(`${row.database}.${row.collection}`)}/${encodeURIComponent(key)}/${kind}` }, row.id);
const by = (row) => row.plugin === "(by hand)" ? "a person, by hand" : (row.plugin ? [h("a", { href: `#/plugins/${encodeURIComponent(row.plugin)}` }, row.plugin), " ", h("code", { class: "faint" }, row.version ?? "")] : "the default rule");

function detail(row) {
  if (row.gone) return h("p", { class: "trouble", "data-key": "detail" }, row.error ?? "This conflict no longer exists.");
  const sides = [["Base", row.base], ["Here", row.local], ["There", row.remote], ["Result", row.result]].filter(([name]) => name !== "Result" || row.state === "decided");
  const fields = new Map();
  for (const [name, side] of sides) if (side?.body) for (const [field, value] of flat(side.body)) fields.set(field, { ...fields.get(field), [name]: value });
  return h("section", { class: "card", "data-key": "detail", "aria-label": `Conflict of ${row.id}` },
    h("header", { class: "row" }, h("h2", null, row.id), h("span", { class: row.state === "decided" ? "pill ok" : "pill attention" }, row.state), h("span", { class: "spring" }),
      h("a", { class: "button", href: `#/documents/${encodeURIComponent(`${row.database}.${row.collection}`)}/${encodeURIComponent(row.id)}` }, "The document"), h("a", { class: "button", href: "#/conflicts" }, "Close")),
    pairs([
      ["Where", [row.place?.kind, row.place?.name, row.place?.peer, row.place?.user].filter(Boolean).join(" ")],
      [row.state === "decided" ? "Decided by" : "Waits for", by(row)],
      row.state === "decided" && ["Decision", WORDS[row.decision] ?? row.decision],
      row.state === "decided" && ["Took", milliseconds(row.duration_ms)],
      row.shadow && ["Shadow", `${row.shadow.plugin} ${row.shadow.version}: ${row.shadow.outcome}${row.shadow.decision ? `, ${WORDS[row.shadow.decision] ?? row.shadow.decision}` : ""}${row.shadow.error ? `, ${row.shadow.error}` : ""}`],
    ], "roomy"),
    row.error && h("p", { class: "trouble" }, row.error),
    table(`The versions of ${row.id}, side by side`, ["Field", ...sides.map(([name, side]) => h("span", null, name, h("br"), h("code", { class: "faint" }, side?.rev ? short(side.rev) : "–")))], [
      ...sides.some(([, side]) => !side || side.deleted || side.omitted) ? [h("tr", null, h("th", { scope: "row" }, "The document"), sides.map(([, side]) => h("td", null, !side ? "none" : side.deleted ? "deleted" : side.omitted ? side.omitted.reason : "exists")))] : [],
      ...[...fields].map(([field, values]) => h("tr", null, h("th", { scope: "row" }, field), sides.map(([name, side]) => cell(name, side, values)))),
    ], "sides"),
    h("p", { class: "faint" }, "Marked: what differs from the base, and which side the result took it from."));
}

function outcomes({ conflicts: all, version }) {
  const number = (outcome) => all.filter((row) => row.outcome === outcome).length;
  const others = all.filter((row) => row.outcome !== "same").slice(0, MOST);
  return [h("p", null, `Version ${version}: ${count(all.length)} rehearsed, ${count(number("same"))} the same, ${count(number("differs"))} different, ${count(number("failed"))} failed, ${count(number("skipped"))} skipped.`),
    others.length > 0 && table("Where the candidate decides differently", ["Document", "Decision", "The candidate", "Differences"], others.map((row) => h("tr", null,
      h("td", null, open(row, row.number, "decided")), h("td", null, WORDS[row.recorded] ?? row.recorded), h("td", null, row.error ? `${row.outcome}: ${row.error.message}` : WORDS[row.decision] ?? row.decision ?? "–"),
      h("td", { class: "words" }, row.differences.slice(0, 8).map(({ field, before, after }) => h("p", null, h("b", null, field || "the document"), ": ", value(after), " instead of ", value(before)))))), "outcomes")];
}

const value = (part) => (part === undefined ? "nothing" : h("code", null, JSON.stringify(part)));

const short = (revision) => (revision.length > 14 ? `${revision.slice(0, 13)}…` : revision);

function cell(name, side, values) {
  if (!side?.body) return h("td", null, "");
  const value = values[name];
  const text = value ?? "absent";
  const changed = value !== values.Base;
  if (name === "Base") return h("td", { class: "value" }, text);
  if (name !== "Result") return h("td", { class: changed ? `value ${name === "Here" ? "here" : "there"}` : "value" }, text, changed && h("span", { class: "hidden" }, " (changed)"));
  const [here, there] = [value === values.Here, value === values.There];
  const from = here && there ? "" : here ? "here" : there ? "there" : "own";
  return h("td", { class: `value ${from}` }, text, from && h("span", { class: "hidden" }, from === "own" ? " (from the resolver itself)" : ` (from ${from})`));
}

/** One row per field: `address.city`, `tags[2]`. */
function flat(value, name = "", found = []) {
  if (found.length > 2000) return found;
  if (value !== null && typeof value === "object" && Object.keys(value).length > 0) {
    for (const [key, part] of Object.entries(value)) flat(part, Array.isArray(value) ? `${name}[${key}]` : name ? `${name}.${key}` : key, found);
  } else found.push([name, JSON.stringify(value)]);
  return found;
}
