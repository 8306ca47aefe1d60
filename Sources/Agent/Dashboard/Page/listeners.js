// Listeners and their connected peers: who they are, what they transfer, and how fast.

import { ago, bytes, card, count, duration, empty, h, pairs, plural, rate, show, table } from "./dom.js";

const MOST = 200;

export function listeners(state) {
  return {
    draw(place) {
      const list = state.agent.listeners;
      const chosen = state.path[1];
      show(place,
        h("h1", null, "Listeners"),
        list.length ? list.map((listener) => one(state, listener, listener.name === chosen)) : card(null, empty("The configuration has none.")));
      if (chosen && this.shown !== chosen) {
        this.shown = chosen;
        place.querySelector(`[data-key="${CSS.escape(chosen)}"]`)?.scrollIntoView({ block: "start" });
      }
    },
  };
}

/** The key under which a peer's rates are kept. */
export const peerKey = (listener, peer) => `peer ${listener.name} ${peer.correlation_id ?? `${peer.address} ${peer.since}`}`;

const sum = (list, name) => list.reduce((total, entry) => total + entry[name], 0);

function one(state, listener, isChosen) {
  const { peers } = listener;
  const flows = peers.map((peer) => state.rates[peerKey(listener, peer)]).filter(Boolean);
  return h("section", { class: isChosen ? "card chosen" : "card", "data-key": listener.name, "aria-label": `Listener ${listener.name}` },
    h("header", { class: "row" },
      h("h2", null, listener.name),
      h("span", { class: `pill activity ${listener.error ? "unhealthy" : listener.activity === "listening" ? "ok" : listener.activity}` }, listener.activity)),
    h("ul", { class: "plain" }, listener.urls.map((url) => h("li", null, h("code", null, url)))),
    trouble(listener),
    pairs([
      ["Connected", `${count(listener.connections)} of ${count(listener.max_connections)}`],
      ["Busy", count(listener.active_connections)],
      ["Sent to them", bytes(sum(peers, "sent_bytes"))], ["Received from them", bytes(sum(peers, "received_bytes"))],
      ["Now", `${rate(sum(flows, "documents"))} documents/s, ${bytes(sum(flows, "bytes"))}/s`],
      ["Pulled by them", plural(sum(peers, "pulled_by_peer"), "document")], ["Pushed by them", plural(sum(peers, "pushed_by_peer"), "document")],
      ["Held for them", count(listener.held)],
      ["Refused by them", count(listener.refused_by_peers.length + listener.more_refused_by_peers)],
    ]),
    peers.length ? peerTable(state, listener) : h("p", { class: "faint" }, "Nobody is connected. Clients of CouchDB's API come and go, and are not counted here."),
    listener.feeds?.length > 0 && h("p", { class: "faint" }, `${plural(listener.feeds.length, "feed")} over HTTP: nightjar listener ${listener.name} peers`));
}

function trouble(listener) {
  const { error } = listener;
  if (!error) return null;
  const wait = listener.next_attempt_at && (Date.parse(listener.next_attempt_at) - Date.now()) / 1000;
  return h("div", { class: "trouble" },
    h("p", null, h("strong", null, error.message), h("span", { class: "faint" }, ` (${error.domain} ${error.code})`)),
    error.remedy && h("p", { class: "remedy" }, "What to do: ", error.remedy),
    wait && h("p", null, wait > 0 ? `Tries again in ${duration(wait)}.` : "Tries again now."));
}

function peerTable(state, listener) {
  // Peers that are transferring come first; otherwise the order is stable, oldest first.
  const sorted = [...listener.peers].sort((one, other) => other.active - one.active || one.since.localeCompare(other.since));
  return [
    table(`Peers of ${listener.name}`, ["User", "Address", "Database", "Activity", "Sent", "Received", "Now", "Pulled", "Pushed", "Since"],
      sorted.slice(0, MOST).map((peer) => row(peer, state.rates[peerKey(listener, peer)])), "peers"),
    sorted.length > MOST && h("p", { class: "faint" }, `These are the first ${count(MOST)} of ${count(sorted.length)}, the busy ones first.`),
  ];
}

function row(peer, flow) {
  const isFlowing = flow && flow.bytes > 0;
  return h("tr", { "data-key": peer.correlation_id ?? peer.address },
    h("th", { scope: "row" }, peer.user ?? "guest"),
    h("td", null, h("code", { title: [peer.protocol, peer.tls, peer.correlation_id].filter(Boolean).join(", ") }, peer.address)),
    h("td", null, peer.database), h("td", null, h("span", { class: `pill ${peer.active ? "" : "idle"}` }, peer.active ? "busy" : "idle")),
    h("td", { class: "figure" }, bytes(peer.sent_bytes)), h("td", { class: "figure" }, bytes(peer.received_bytes)),
    h("td", { class: "figure" }, isFlowing ? `${bytes(flow.bytes)}/s` : "–"),
    h("td", { class: "figure" }, count(peer.pulled_by_peer)), h("td", { class: "figure" }, count(peer.pushed_by_peer)), h("td", null, ago(peer.since)));
}
