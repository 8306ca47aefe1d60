// The frame: what is known about the agent, which section is shown, and the stream that keeps both up to date.

import { events, get, token, whenLoginIsNeeded } from "./api.js";
import { bytes, count, duration, empty, plural, show } from "./dom.js";
import { overview } from "./overview.js";
import { listeners, peerKey } from "./listeners.js";
import { replicators, held } from "./replicators.js";
import { plugins } from "./plugins.js";
import { conflicts } from "./conflicts.js";
import { documents } from "./documents.js";
import { log } from "./log.js";

const VIEWS = { "": overview, listeners, replicators, held, plugins, conflicts, documents, log };
const TITLES = { "": "Overview", listeners: "Listeners", replicators: "Replicators", held: "Held documents", plugins: "Plugins", conflicts: "Conflicts", documents: "Documents", log: "Log" };
const SECONDS = 2;
const MAX_LINES = 500;
const HISTORY_SECONDS = 20;

/** State shared by all sections. */
export const state = { agent: null, lines: [], history: null, rates: {}, changes: 0, path: [], refresh };

const place = (id) => document.getElementById(id);
let stop = null;
let view = null;
let drawn = 0;

/** Schedules a redraw; many changes lead to one redraw. */
function refresh() {
  if (!drawn) drawn = requestAnimationFrame(draw);
}

function draw() {
  drawn = 0;
  if (!state.agent || !place("login").hidden) return;
  const agent = state.agent;
  show(place("about"), `${plural(agent.databases.length, "database")}, ${plural(agent.listeners.length, "listener")}, ${plural(agent.replicators.length, "replicator")} · `
    + `version ${agent.version} · up ${duration(agent.uptime_seconds)} · ${bytes(agent.resident_bytes)}`);
  const health = place("health");
  const words = { ok: "All is well", attention: `${plural(agent.attention.length, "thing")} to look at`, unhealthy: `Unhealthy: ${plural(agent.attention.filter((entry) => entry.gravity === "unhealthy").length, "thing")} to fix` };
  show(health, words[agent.health] ?? agent.health);
  health.className = `pill ${agent.health}`;
  document.title = `${agent.attention.length ? `(${agent.attention.length}) ` : ""}${TITLES[state.path[0] ?? ""]} · Nightjar`;
  const totals = agent.databases.reduce((sum, database) => ({ conflicts: sum.conflicts + database.conflicts_pending, held: sum.held + database.held + database.unrouted }), { conflicts: 0, held: 0 });
  totals.held += agent.replicators.reduce((sum, replicator) => sum + replicator.refused, 0)
    + agent.listeners.reduce((sum, listener) => sum + listener.held + listener.refused_by_peers.length + listener.more_refused_by_peers, 0);
  badge("conflicts", totals.conflicts, "pending");
  badge("held", totals.held, "waiting");
  badge("plugins", agent.plugins.filter((plugin) => plugin.refused || plugin.failing.length || ["refused", "missing"].includes(plugin.state)).length, "to look at");
  badge("listeners", agent.listeners.filter((listener) => listener.error).length, "without their port");
  badge("replicators", agent.replicators.filter((replicator) => replicator.error).length, "with an error");
  view?.draw(place("view"));
}

function badge(name, number, words) {
  const link = document.querySelector(`[data-view="${name}"]`);
  const title = TITLES[name];
  let mark = link.querySelector(".badge");
  if (!number) return mark?.remove();
  if (!mark) {
    mark = document.createElement("span");
    mark.className = "badge";
    link.append(" ", mark);
  }
  mark.textContent = count(number);
  link.setAttribute("aria-label", `${title}, ${count(number)} ${words}`);
}

function navigate() {
  const path = location.hash.replace(/^#\/?/, "").split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const name = VIEWS[path[0]] ? path[0] : "";
  const isOther = (state.path[0] ?? null) !== name;
  state.path = [name, ...path.slice(1)];
  for (const link of document.querySelectorAll("#menu a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (isOther || !view) {
    place("view").replaceChildren(empty("Loading"));
    view = VIEWS[name](state);
    if (state.agent) place("content").focus({ preventScroll: false });
  } else view.moved?.();
  refresh();
}

// Incoming events

function take(agent) {
  const now = performance.now();
  for (const replicator of agent.replicators) rate(`replicator ${replicator.name}`, now, replicator.counts_since,
    [replicator.pushed + replicator.pulled, replicator.bytes_sent + replicator.bytes_received]);
  for (const listener of agent.listeners) {
    for (const peer of listener.peers) rate(peerKey(listener, peer), now, peer.since, [peer.pulled_by_peer + peer.pushed_by_peer, peer.sent_bytes + peer.received_bytes]);
  }
  // Forget replicators and peers that are gone.
  for (const key of Object.keys(state.rates)) if (state.rates[key].seen !== now) delete state.rates[key];
  state.agent = agent;
  state.changes += 1;
  refresh();
}

/** Documents and bytes per second, averaged over the last ten seconds. */
function rate(key, now, run, figures) {
  let kept = state.rates[key];
  if (!kept || kept.run !== run) kept = state.rates[key] = { run, points: [] };
  kept.seen = now;
  kept.points.push([now, ...figures]);
  while (kept.points.length > 2 && now - kept.points[0][0] > 10000) kept.points.shift();
  const [first, last] = [kept.points[0], kept.points[kept.points.length - 1]];
  const seconds = (last[0] - first[0]) / 1000;
  kept.documents = seconds > 0 ? Math.max(0, last[1] - first[1]) / seconds : 0;
  kept.bytes = seconds > 0 ? Math.max(0, last[2] - first[2]) / seconds : 0;
}

function handle(name, data) {
  if (name === "agent") take(data);
  else if (name === "status" && state.agent) {
    const index = state.agent.replicators.findIndex((replicator) => replicator.name === data.name);
    if (index >= 0) state.agent.replicators[index] = data;
    refresh();
  } else if (name === "log") {
    const last = state.lines[state.lines.length - 1];
    if (last && data.number <= last.number) return;
    state.lines.push(data);
    if (state.lines.length > MAX_LINES) state.lines.splice(0, state.lines.length - MAX_LINES);
    view?.line?.();
  } else if (name === "conflict" || name === "plugin" || name === "documents") view?.happened?.(name, data);
}

async function follow() {
  const mine = stop = new AbortController();
  let wait = 1;
  while (!mine.signal.aborted) {
    try {
      take(await get("api/status"));
      state.lines = await get("api/log");
      enter();
      link(true);
      wait = 1;
      await events(`api/events?status=${SECONDS}&log=true`, mine.signal, handle);
    } catch (error) {
      if (mine.signal.aborted || error.status === 401) return;
      link(false, error.message);
    }
    if (mine.signal.aborted) return;
    link(false, "the stream ended");
    await new Promise((done) => setTimeout(done, wait * 1000));
    wait = Math.min(wait * 2, 15);
  }
}

function link(isLive, why) {
  const mark = place("link");
  const words = isLive ? "Live" : `Not connected: ${why}; trying again`;
  if (mark.textContent !== words) mark.textContent = words;
  mark.className = isLive ? "link live" : "link lost";
}

async function readHistory() {
  if (state.agent && !document.hidden && place("login").hidden) {
    try {
      state.history = await get("api/history");
      refresh();
    } catch { /* the stream tells of it */ }
  }
}

// Login

function enter() {
  place("login").hidden = true;
  place("menu").hidden = false;
  place("view").hidden = false;
  place("leave").hidden = !token.get();
  if (!state.history) readHistory();
}

whenLoginIsNeeded((why) => {
  stop?.abort();
  token.clear();
  state.agent = null;
  place("login").hidden = false;
  place("menu").hidden = true;
  place("view").hidden = true;
  place("leave").hidden = true;
  place("login-problem").textContent = why ? "The token is wrong." : "";
  show(place("health"));
  show(place("about"));
  place("health").className = "pill";
  place("link").textContent = "Not logged in";
  place("link").className = "link";
  place("token").value = "";
  place("token").focus();
});

place("login").onsubmit = (event) => {
  event.preventDefault();
  const given = place("token").value.trim();
  // A token that is not valid in a header cannot be right.
  if (!/^[\x21-\x7e]+$/.test(given)) {
    place("login-problem").textContent = "The token is wrong.";
    return;
  }
  token.set(given);
  follow();
};

place("leave").onclick = () => {
  token.clear();
  stop?.abort();
  location.reload();
};

// A hidden page needs no stream.
document.addEventListener("visibilitychange", () => {
  if (!place("login").hidden) return;
  stop?.abort();
  if (!document.hidden) follow();
});
addEventListener("hashchange", navigate);
addEventListener("resize", refresh);
setInterval(refresh, 1000);
setInterval(readHistory, HISTORY_SECONDS * 1000);
navigate();
follow();
