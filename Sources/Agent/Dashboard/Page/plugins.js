// Plugins: where they are used, what calls cost, what went wrong, their source, and earlier versions.

import { at, get, post } from "./api.js";
import { act, ago, ask, button, bytes, count, empty, front, h, milliseconds, pairs, plural, show, table } from "./dom.js";

export function plugins(state) {
  return {
    draw(place) {
      const list = state.agent.plugins;
      const chosen = state.path[1];
      show(place,
        h("header", { class: "row" }, h("h1", null, "Plugins"), h("span", { class: "spring" }),
          list.length > 0 && button("Read the folder again", () => reload(null))),
        state.agent.plugin_folder_problems.map((problem) => h("p", { class: "trouble" }, problem)),
        list.length ? list.map((plugin) => one(plugin, plugin.name === chosen)) : empty("The plugins folder is empty, or there is none."));
      if (chosen && this.shown !== chosen) {
        this.shown = chosen;
        place.querySelector(`[data-key="${CSS.escape(chosen)}"]`)?.scrollIntoView({ block: "start" });
      }
    },
  };
}

function one(plugin, isChosen) {
  const hits = plugin.limits_hit;
  const reached = [[hits.timeouts, "of time"], [hits.memory, "of memory"], [hits.results, "of results"], [hits.log_lines_dropped, "of log lines"]].filter(([number]) => number > 0);
  const isBad = plugin.refused || plugin.failing.length || plugin.parameter_problems.length;
  return h("section", { class: isChosen ? "card chosen" : "card", "data-key": plugin.name, "aria-label": `Plugin ${plugin.name}` },
    h("header", { class: "row" }, h("h2", null, plugin.name),
      h("span", { class: `pill ${isBad ? "attention" : plugin.state === "active" ? "ok" : ""}` }, plugin.state),
      h("code", { class: "faint" }, plugin.version ?? "no version"),
      plugin.fleet && h("span", { class: "pill", title: `Signed with ${plugin.fleet.key}` }, `fleet, version ${plugin.fleet.version}`),
      h("span", { class: "spring" }), buttons(plugin)),
    plugin.description && h("p", null, plugin.description),
    h("p", { class: "faint" }, plugin.used_by.length ? `Used by ${[...new Set(plugin.used_by)].join(", ")}` : `Not used; it has ${plugin.hooks.join(", ") || "no hooks"}`),
    plugin.refused && h("div", { class: "trouble" }, h("p", null, h("strong", null, plugin.refused.only_tests ? `Its tests fail now; version ${plugin.refused.version} stays in use` : `${plugin.refused.version ? `Version ${plugin.refused.version}` : "What is in the folder"} is refused; the previous one stays in use`)), h("pre", null, plugin.refused.error)),
    plugin.rolled_back && h("p", { class: "hint" }, `Rolled back by hand from ${plugin.rolled_back.from}; it holds until the file changes or is reloaded.`),
    plugin.failing.map((use) => h("div", { class: "trouble" }, h("p", null, h("strong", null, `${use.used_by}: failed ${plural(use.failures, "time")} in a row${use.peer ? ` for ${use.peer}` : ""}, and is called only now and then`)), h("pre", null, use.error))),
    plugin.parameter_problems.map((problem) => h("p", { class: "trouble" }, problem)),
    pairs([
      ["Calls", count(plugin.calls)], ["p99", milliseconds(plugin.p99_ms)], ["Errors", count(plugin.errors)], ["Rejected", count(plugin.rejected)],
      ["Not asked", count(plugin.not_asked)], ["Memory", bytes(plugin.memory_bytes)],
      ["Limits hit", reached.length ? reached.map(([number, what]) => `${count(number)} ${what}`).join(", ") : "none"],
    ]),
    plugin.per_hook.some((hook) => hook.calls > 0) && h("details", null, h("summary", null, "By hook"),
      table(`Hooks of ${plugin.name}`, ["Hook", "Calls", "Rejected", "Errors", "p50", "p99"], plugin.per_hook.map((hook) => h("tr", null, h("th", { scope: "row" }, hook.hook),
        h("td", { class: "figure" }, count(hook.calls)), h("td", { class: "figure" }, count(hook.rejected)), h("td", null, Object.entries(hook.errors).filter(([, number]) => number > 0).map(([kind, number]) => `${count(number)} ${kind}`).join(", ") || "0"),
        h("td", { class: "figure" }, milliseconds(hook.p50_ms)), h("td", { class: "figure" }, milliseconds(hook.p99_ms)))))),
    plugin.shadows.map((shadow) => beside(plugin, shadow)),
    plugin.last_failure && h("details", null, h("summary", null, "Last failure"), h("pre", null, plugin.last_failure)));
}

// As a candidate: it is given the same input as the serving plugin, with no effect.
function beside(plugin, shadow) {
  const counted = `${count(shadow.compared)} compared, ${count(shadow.different)} different, ${count(shadow.failed)} failed, ${count(shadow.skipped)} skipped`;
  return h("details", null, h("summary", null, `A shadow of ${shadow.beside} in ${shadow.place}: ${counted}`),
    shadow.differences.length ? table(`Last differences of ${plugin.name} in ${shadow.place}`, ["Document", "Collection", shadow.beside, plugin.name, "When"], shadow.differences.map((row) => h("tr", null,
      h("th", { scope: "row" }, row.id), h("td", null, row.collection), h("td", null, row.serving), h("td", null, row.candidate), h("td", null, ago(row.at)))))
      : h("p", { class: "hint" }, shadow.compared ? "Both gave the same answers." : "Nothing has been compared yet."));
}

function buttons(plugin) {
  const label = (verb) => ({ "aria-label": `${verb} ${plugin.name}` });
  return h("div", { class: "buttons" },
    plugin.version && button("Source", () => source(plugin.name), label("Source of")),
    button("Reload", () => reload(plugin.name), label("Reload")),
    plugin.kept_versions.length > 1 && button("Roll back", () => rollBack(plugin), label("Roll back")),
    (plugin.errors > 0 || plugin.failing.length > 0) && button("Retry", () => act(`What waits for ${plugin.name} is being tried again`, () => post(at("plugins", plugin.name, "retry"))), label("Retry what waits for")));
}

function reload(name) {
  return act("Nothing has changed", async () => {
    const verdicts = await post(name ? at("plugins", name, "reload") : "api/plugins/reload");
    const refused = verdicts.find((verdict) => verdict.error);
    if (refused) throw new Error(`${refused.plugin} is refused; what was in force stays in use: ${refused.error}`);
    const changed = verdicts.filter((verdict) => verdict.outcome !== "unchanged");
    return changed.length ? changed.map((verdict) => `${verdict.plugin}: ${verdict.outcome.replace("_", " ")}`).join(", ") : "Nothing has changed";
  });
}

async function source(name) {
  await act("", async () => {
    const found = await get(at("plugins", name, "source"));
    front(`${name} ${found.version}`, found.files.map((file) => {
      const lines = file.text.replace(/\n$/, "").split("\n");
      return h("section", null, h("h3", null, file.path),
        h("div", { class: "source", tabindex: "0", role: "region", "aria-label": file.path },
          h("pre", { class: "numbers", "aria-hidden": "true" }, lines.map((_, index) => index + 1).join("\n")), h("pre", null, lines.join("\n"))));
    }));
    return `Source of ${name}`;
  });
}

function rollBack(plugin) {
  const others = plugin.kept_versions.filter((kept) => kept.version !== plugin.version).reverse();
  front(`Roll back ${plugin.name}`,
    h("p", null, "The version holds until the plugin's file changes or is reloaded. What is held is tried again with it."),
    h("ul", { class: "plain" }, others.map((kept) => h("li", { class: "row" }, h("code", null, kept.version), h("span", { class: "faint" }, "in force ", ago(kept.since)), h("span", { class: "spring" }),
      button("Use this version", async () => {
        document.getElementById("dialog").close();
        if (!await ask(`Roll back ${plugin.name} to ${kept.version}?`, `Version ${plugin.version} is in force now.`, "Roll back")) return;
        await act(`${plugin.name} is at ${kept.version}`, () => post(`${at("plugins", plugin.name, "rollback")}?to=${encodeURIComponent(kept.version)}`));
      })))));
}
