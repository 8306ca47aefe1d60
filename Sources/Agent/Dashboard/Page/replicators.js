// Replicators with their present activity, and the documents that are pending, held or refused.

import { at, post, rows } from "./api.js";
import { act, ago, ask, button, bytes, clock, count, duration, empty, h, pairs, plural, rate, show, table } from "./dom.js";

const MOST = 200;

export function replicators(state) {
  return {
    draw(place) {
      const list = state.agent.replicators;
      const chosen = state.path[1];
      show(place,
        h("h1", null, "Replicators"),
        list.length ? list.map((replicator) => one(state, replicator, replicator.name === chosen)) : empty("The configuration has none."));
      if (chosen && this.shown !== chosen) {
        this.shown = chosen;
        place.querySelector(`[data-key="${CSS.escape(chosen)}"]`)?.scrollIntoView({ block: "start" });
      }
    },
  };
}

const DIRECTIONS = { push: "pushes to", pull: "pulls from", push_and_pull: "pushes to and pulls from" };

function one(state, replicator, isChosen) {
  const flow = state.rates[`replicator ${replicator.name}`];
  const { completed, total } = replicator.progress;
  const share = total > 0 ? Math.min(1, completed / total) : replicator.activity === "idle" ? 1 : 0;
  const isStopped = replicator.activity === "stopped";
  const waits = replicator.next_retry_at && (Date.parse(replicator.next_retry_at) - Date.now()) / 1000;
  return h("section", { class: isChosen ? "card chosen" : "card", "data-key": replicator.name, "aria-label": `Replicator ${replicator.name}` },
    h("header", { class: "row" },
      h("h2", null, replicator.name),
      h("span", { class: `pill activity ${replicator.error ? "unhealthy" : replicator.activity}` }, replicator.suspended ? "suspended" : replicator.activity),
      h("span", { class: "spring" }),
      buttons(replicator, isStopped)),
    h("p", null, h("strong", null, replicator.database), ` ${DIRECTIONS[replicator.type] ?? replicator.type} `, h("code", null, replicator.target),
      h("span", { class: "faint" }, replicator.continuous ? ", continuously" : ", once")),
    h("div", { class: "progress" },
      h("progress", { max: 1, value: share, "aria-label": `Progress of ${replicator.name}` }),
      h("span", null, total > 0 ? `${count(completed)} of ${count(total)}` : "nothing to do so far"),
      h("span", null, flow && replicator.activity === "busy" ? `${rate(flow.documents)} documents/s, ${bytes(flow.bytes)}/s` : "")),
    blobs(replicator),
    trouble(replicator, waits),
    pairs([
      ["Pushed", count(replicator.pushed)], ["Pulled", count(replicator.pulled)],
      ["To be pushed", (replicator.pending_is_capped ? "over " : "") + count(replicator.pending)],
      ["Lag", replicator.lag_seconds === null ? "–" : duration(replicator.lag_seconds)],
      ["Rejected by filters here", count(replicator.rejected)],
      ["Held", count(replicator.held)], ["Refused by the peer", count(replicator.refused)], ["Failed", count(replicator.failed)],
      replicator.too_large > 0 && ["Too large for this agent", (replicator.too_large_is_capped ? "over " : "") + count(replicator.too_large)],
      ["Purged, access removed", count(replicator.access_removed)],
      ["Conflicts decided", count(replicator.conflicts_resolved)],
      ["Sent, received", `${bytes(replicator.bytes_sent)}, ${bytes(replicator.bytes_received)}`],
      ["Blobs sent, received", `${bytes(replicator.blob_bytes_sent)}, ${bytes(replicator.blob_bytes_received)}`],
      replicator.bandwidth && ["Limits, sent, received", [replicator.bandwidth.send, replicator.bandwidth.receive]
        .map((most) => most === null ? "–" : `${bytes(most)}/s`).join(", ")],
      ["Saved by deltas", bytes(replicator.delta.bytes_saved)],
      ["Last in sync", ago(replicator.last_success_at)],
      replicator.resumes_at && ["Suspended by its schedule until", clock(replicator.resumes_at)],
      replicator.remote_went_back && ["Remote went back", ago(replicator.remote_went_back.at)],
    ]),
    (replicator.protocol || replicator.tls?.connection)
      && h("p", { class: "faint" }, [replicator.protocol, replicator.tls?.connection].filter(Boolean).join(", ")));
}

const BLOBS = 20;

/** Blobs that are partly transferred. */
function blobs(replicator) {
  const list = replicator.blobs_under_way;
  if (!list.length) return null;
  return h("div", { "data-key": "blobs" },
    h("h3", null, `${plural(list.length, "blob")} under way`),
    list.slice(0, BLOBS).map((blob) => h("div", { class: "progress", "data-key": `${blob.direction} ${blob.id} ${blob.blob}` },
      h("progress", { max: 1, value: blob.size > 0 ? Math.min(1, blob.bytes / blob.size) : 0, "aria-label": `Progress of the blob ${blob.blob}` }),
      h("span", null, blob.size === null ? bytes(blob.bytes) : `${bytes(blob.bytes)} of ${bytes(blob.size)}`),
      h("span", { title: blob.blob }, `${blob.direction === "push" ? "sent" : "received"} with ${blob.id ?? blob.blob}`))),
    list.length > BLOBS && h("p", { class: "faint" }, `These are the first ${count(BLOBS)} of ${count(list.length)}.`));
}

function trouble(replicator, waits) {
  const { error } = replicator;
  const retry = waits ? h("p", null, waits > 0 ? `Tries again in ${duration(waits)}` : "Tries again now", replicator.attempt ? `, attempt ${count(replicator.attempt + 1)}.` : ".") : null;
  const stopped = replicator.stopped_by_operator && h("p", null, "Stopped by hand, and stays stopped across restarts.");
  if (!error && !retry && !stopped) return null;
  return h("div", { class: error ? "trouble" : "hint" },
    error && h("p", null, h("strong", null, error.message), h("span", { class: "faint" }, ` (${error.domain} ${error.code}${error.transient ? ", may resolve itself" : ""})`)),
    error?.remedy && h("p", { class: "remedy" }, "What to do: ", error.remedy),
    retry, stopped);
}

function buttons(replicator, isStopped) {
  const path = (verb) => at("replicators", replicator.name, verb);
  const label = (verb) => ({ "aria-label": `${verb} ${replicator.name}` });
  const tell = (verb, words) => () => act(words, () => post(path(verb)));
  const stop = async () => {
    if (await ask(`Stop ${replicator.name}?`, "It stays stopped, even if the agent restarts, until somebody starts it. Nothing is lost: what changes in the meantime is replicated then.", "Stop it")) {
      await act(`${replicator.name} is stopping`, () => post(`${path("stop")}?keep=true`));
    }
  };
  return h("div", { class: "buttons" },
    isStopped && button("Start", tell("start", `${replicator.name} is starting`), { class: "primary", ...label("Start") }),
    !isStopped && replicator.activity === "offline" && !replicator.suspended && button("Retry now", tell("start", `${replicator.name} is trying now`), { class: "primary", ...label("Retry") }),
    !isStopped && replicator.suspended && button("Resume", tell("resume", `${replicator.name} is resuming`), { class: "primary", ...label("Resume") }),
    !isStopped && !replicator.suspended && button("Suspend", tell("suspend", `${replicator.name} is suspended`), label("Suspend")),
    !isStopped && button("Stop", stop, label("Stop")));
}

// Held and refused documents

export function held(state) {
  const lists = new Map();

  /** Reloads a list when its count has changed. */
  function read(key, figure, path) {
    const now = lists.get(key);
    if (now?.figure === figure) return now;
    const entry = { figure, rows: now?.rows ?? [], more: now?.more ?? false };
    lists.set(key, entry);
    rows(path, MOST).then((found) => Object.assign(entry, found, { error: null }), (error) => { entry.error = error.message; }).finally(() => state.refresh());
    return entry;
  }

  return {
    draw(place) {
      const { agent } = state;
      const parts = [];
      for (const replicator of agent.replicators) {
        if (replicator.held) parts.push(heldOf(replicator, read(`held ${replicator.name}`, `${replicator.held} ${replicator.failed}`, at("replicators", replicator.name, "held"))));
        if (replicator.refused) parts.push(refusedOf(replicator, read(`refused ${replicator.name}`, `${replicator.refused} ${replicator.failed}`, at("replicators", replicator.name, "refused"))));
      }
      for (const listener of agent.listeners) parts.push(...atListener(listener));
      for (const database of agent.databases) {
        for (const collection of database.collections) {
          if (!collection.unrouted) continue;
          const name = `${database.name}.${collection.name}`;
          parts.push(unrouted(name, collection.unrouted, read(`unrouted ${name}`, `${collection.unrouted} ${collection.last_sequence}`, at("databases", name, "unrouted"))));
        }
      }
      show(place,
        h("header", { class: "row" }, h("h1", null, "Held documents"), h("span", { class: "spring" }),
          button("Retry all plugins", () => act("The plugins are being retried", () => post("api/plugins/retry")))),
        h("p", { class: "faint" }, "A document is held if a plugin failed on it or one of its blobs cannot be accepted, and refused if the peer rejected it. Neither is lost, and other documents are not held up."),
        parts.length ? parts : h("section", { class: "card fine" }, h("h2", null, "No document is held or refused")));
    },
  };
}

const tail = (list, total) => list.error ? h("p", { class: "problem", role: "alert" }, list.error)
  : list.more ? h("p", { class: "faint" }, `These are the first ${count(list.rows.length)} of ${count(total)}.`) : null;

const open = (database, row) => h("a", { href: `#/documents/${encodeURIComponent(`${database}.${row.collection}`)}/${encodeURIComponent(row.id)}` }, row.id);

function heldOf(replicator, list) {
  return h("section", { class: "card", "data-key": `held ${replicator.name}` },
    h("h2", null, `${plural(replicator.held, "document")} held by replicator ${replicator.name}`),
    table(`Held by replicator ${replicator.name}`, ["Document", "Direction", "Plugin", "Why", "Tries", "Since"], list.rows.map((row) => h("tr", null,
      h("td", null, open(replicator.database, row)), h("td", null, row.direction), h("td", null, row.plugin ? h("a", { href: `#/plugins/${encodeURIComponent(row.plugin)}` }, row.plugin) : "–"),
      h("td", { class: "words" }, row.error), h("td", { class: "figure" }, count(row.tries)), h("td", null, ago(row.since)))), "table"),
    tail(list, replicator.held),
    h("p", { class: "remedy" }, "What to do: fix the plugin and save it, or raise the limit that is named and reload the configuration; the documents are tried again at once."));
}

function refusedOf(replicator, list) {
  const again = () => act("They are offered again", async () => {
    const done = await post(at("replicators", replicator.name, "retry-refused"));
    return `${plural(done.documents, "document")} ${done.documents === 1 ? "is" : "are"} offered again${done.now ? "" : " with the next connection"}`;
  });
  return h("section", { class: "card", "data-key": `refused ${replicator.name}` },
    h("header", { class: "row" }, h("h2", null, `${plural(replicator.refused, "document")} of replicator ${replicator.name} refused by the peer`), h("span", { class: "spring" }),
      button("Offer again", again, { "aria-label": `Offer the refused documents of ${replicator.name} again` })),
    table(`Refused by the peer of ${replicator.name}`, ["Document", "Status", "Why", "Tries", "Since"], list.rows.map((row) => h("tr", null,
      h("td", null, open(replicator.database, row)), h("td", null, `${row.domain} ${row.status}`), h("td", { class: "words" }, row.reason), h("td", { class: "figure" }, count(row.tries)), h("td", null, ago(row.since)))), "table"),
    tail(list, replicator.refused));
}

function atListener(listener) {
  const parts = [];
  const waiting = listener.peers.flatMap((peer) => peer.held.map((row) => ({ peer, ...row })));
  if (listener.held) {
    parts.push(h("section", { class: "card", "data-key": `listener held ${listener.name}` },
      h("h2", null, `${plural(listener.held, "document")} held for peers of listener ${listener.name}`),
      table(`Held for peers of ${listener.name}`, ["Document", "Peer", "Plugin", "Why"], waiting.map((row) => h("tr", null,
        h("td", null, open(row.peer.database, row)), h("td", null, row.peer.user ?? row.peer.address), h("td", null, row.plugin), h("td", { class: "words" }, row.error))), "table")));
  }
  if (listener.refused_by_peers.length) {
    parts.push(h("section", { class: "card", "data-key": `listener refused ${listener.name}` },
      h("h2", null, `${plural(listener.refused_by_peers.length + listener.more_refused_by_peers, "document")} refused by peers of listener ${listener.name}`),
      table(`Refused by peers of ${listener.name}`, ["Document", "Peer", "Why", "Since"], listener.refused_by_peers.map((row) => h("tr", null,
        h("td", null, open(row.database, row)), h("td", null, row.peer), h("td", { class: "words" }, row.error.message), h("td", null, ago(row.since)))), "table")));
  }
  return parts;
}

function unrouted(name, total, list) {
  return h("section", { class: "card", "data-key": `unrouted ${name}` },
    h("h2", null, `${plural(total, "document")} of ${name} in no channel: sync failed`),
    table(`Unrouted documents of ${name}`, ["Document", "Plugin", "Why"], list.rows.map((row) => h("tr", null,
      h("td", null, h("a", { href: `#/documents/${encodeURIComponent(name)}/${encodeURIComponent(row.id)}` }, row.id)), h("td", null, row.plugin), h("td", { class: "words" }, row.error ?? row.reason ?? ""))), "table"),
    tail(list, total));
}
