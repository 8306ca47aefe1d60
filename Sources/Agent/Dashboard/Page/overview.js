// The first section: what needs attention, the topology, and the last hour.

import { ago, bytes, card, count, duration, empty, h, plural, show } from "./dom.js";
import { charts } from "./charts.js";

export function overview(state) {
  return {
    draw(place) {
      const agent = state.agent;
      show(place,
        h("h1", { class: "hidden" }, "Overview"),
        attention(agent),
        tiles(agent),
        card("Who talks to whom", topology(agent, place.clientWidth - 34)),
        h("div", { class: "columns" }, databases(agent), listeners(agent)),
        charts(state.history));
    },
  };
}

/** The section that shows each kind of problem. */
const WHERE = {
  documents_held: ["#/held", "Show the documents"], documents_refused: ["#/held", "Show the documents"],
  documents_unrouted: ["#/held", "Show the documents"], conflicts_pending: ["#/conflicts", "Show the conflicts"],
};

function attention(agent) {
  if (!agent.attention.length && !agent.plugin_folder_problems.length) {
    return h("section", { class: "card fine", "data-key": "attention" }, h("h2", null, "Nothing needs attention"));
  }
  return h("section", { class: "card", "data-key": "attention" },
    h("h2", null, "What needs attention"),
    h("ul", { class: "attention" },
      agent.attention.map((entry) => h("li", { class: entry.gravity, "data-key": `${entry.kind} ${entry.subject}` },
        h("p", { class: "subject" }, h("span", { class: `mark ${entry.gravity}` }, entry.gravity === "unhealthy" ? "Fix" : "Check"), " ",
          link(entry.subject), entry.since && h("span", { class: "faint" }, " since ", ago(entry.since))),
        h("p", null, entry.text),
        entry.remedy && h("p", { class: "remedy" }, "What to do: ", entry.remedy),
        WHERE[entry.kind] && h("p", null, h("a", { href: WHERE[entry.kind][0], "aria-label": `${WHERE[entry.kind][1]}, ${entry.subject}` }, WHERE[entry.kind][1])))),
      agent.plugin_folder_problems.map((problem) => h("li", { class: "attention" }, h("p", null, problem)))));
}

/** Links a subject such as "replicator hub" to its section. */
export function link(subject) {
  const space = subject.indexOf(" ");
  const [kind, name] = [subject.slice(0, space), subject.slice(space + 1)];
  const section = { listener: "listeners", replicator: "replicators", plugin: "plugins" }[kind];
  return section ? h("a", { href: `#/${section}/${encodeURIComponent(name)}` }, subject) : h("span", null, subject);
}

function tiles(agent) {
  const sum = (list, value) => list.reduce((total, entry) => total + value(entry), 0);
  const collections = agent.databases.flatMap((database) => database.collections);
  const held = sum(agent.databases, (database) => database.held + database.unrouted) + sum(agent.listeners, (listener) => listener.held);
  const capped = agent.replicators.some((replicator) => replicator.pending_is_capped);
  const tile = (id, name, value, href, isBad) => h("li", { class: isBad ? "tile bad" : "tile" },
    h(href ? "a" : "span", { href }, h("span", { class: "name" }, name), h("span", { class: "value", id }, value)));
  return h("ul", { class: "tiles", "aria-label": "Figures" },
    tile("figure-documents", "Documents", count(sum(collections, (collection) => collection.documents)), "#/documents"),
    tile("figure-peers", "Peers connected", count(sum(agent.listeners, (listener) => listener.connections)), "#/listeners"),
    tile("figure-pending", "To be pushed", (capped ? "over " : "") + count(sum(agent.replicators, (replicator) => replicator.pending)), "#/replicators"),
    tile("figure-held", "Held", count(held), "#/held", held > 0),
    tile("figure-refused", "Refused by peers", count(sum(agent.replicators, (replicator) => replicator.refused)
      + sum(agent.listeners, (listener) => listener.refused_by_peers.length + listener.more_refused_by_peers)), "#/held"),
    tile("figure-conflicts", "Conflicts pending", count(sum(agent.databases, (database) => database.conflicts_pending)), "#/conflicts"));
}

function databases(agent) {
  return card("Databases", agent.databases.length ? agent.databases.map((database) => h("div", { class: "entry", "data-key": database.name },
    h("h3", null, database.name, h("span", { class: "faint" }, ` ${bytes(database.size_bytes + (database.blob_bytes ?? 0))}`)),
    h("ul", { class: "plain" }, database.collections.map((collection) => h("li", null,
      h("a", { href: `#/documents/${encodeURIComponent(`${database.name}.${collection.name}`)}` }, collection.name.replace(/^_default\./, "")), " ",
      plural(collection.documents, "document"), h("span", { class: "faint" }, `, ${count(collection.deleted)} deleted`)))))) : empty("There are none."));
}

function listeners(agent) {
  return card("Listeners", agent.listeners.length ? agent.listeners.map((listener) => h("div", { class: "entry", "data-key": listener.name },
    h("h3", null, h("a", { href: `#/listeners/${encodeURIComponent(listener.name)}` }, listener.name),
      h("span", { class: "faint" }, ` ${listener.connections} of ${count(listener.max_connections)} connections, ${count(listener.active_connections)} busy`)),
    listener.error && h("p", { class: "problem" }, listener.error.message),
    h("ul", { class: "plain" }, listener.urls.map((url) => h("li", null, h("code", null, url)))),
    listener.tls && h("p", { class: "faint" }, "Certificate ", listener.tls.label, ", expires in ", duration((Date.parse(listener.tls.expires_at) - Date.now()) / 1000)),
    listener.tls?.next_pin && h("p", null, "The next key, which peers should pin too: ", h("code", null, listener.tls.next_pin)),
    listener.peers.length > 0 && h("details", null, h("summary", null, plural(listener.peers.length, "peer")),
      h("ul", { class: "plain" }, listener.peers.slice(0, 100).map((peer) => h("li", { "data-key": peer.correlation_id ?? peer.address },
        peer.user ?? "guest", h("span", { class: "faint" }, ` ${peer.address}, ${peer.database}, `, `pulled ${count(peer.pulled_by_peer)} (${bytes(peer.sent_bytes)}), pushed ${count(peer.pushed_by_peer)} (${bytes(peer.received_bytes)}), since `, ago(peer.since)))))))) : empty("There are none."));
}

// The diagram: listeners with their peers, databases, and replicators with their targets, from left to right; from top to bottom on narrow screens.

const PEERS = 4;

function topology(agent, width) {
  const columns = [[], [], []];
  const edges = [];
  for (const database of agent.databases) columns[1].push({ id: `database ${database.name}`, title: database.name, under: plural(database.collections.reduce((sum, collection) => sum + collection.documents, 0), "document"),
    href: `#/documents/${encodeURIComponent(database.name)}`, look: database.damaged_documents.length ? "bad" : "database" });
  for (const listener of agent.listeners) {
    const id = `listener ${listener.name}`;
    const users = listener.peers.slice(0, PEERS).map((peer) => peer.user ?? peer.address);
    if (listener.peers.length > PEERS) users.push(`${listener.peers.length - PEERS} more`);
    columns[0].push({ id, title: listener.name, under: users.length ? users.join(", ") : "no peers", look: listener.attention.length ? "warn" : listener.peers.length ? "live" : "idle", kind: "listener",
      href: `#/listeners/${encodeURIComponent(listener.name)}` });
    const names = new Set(listener.urls.map((url) => url.slice(url.lastIndexOf("/") + 1)));
    for (const database of agent.databases) {
      if (names.has(database.name) || listener.peers.some((peer) => peer.database === database.name)) edges.push({ from: id, to: `database ${database.name}`, look: listener.active_connections ? "busy" : "idle" });
    }
  }
  for (const replicator of agent.replicators) {
    const id = `replicator ${replicator.name}`;
    columns[2].push({ id, title: replicator.name, under: `${replicator.activity}: ${replicator.target}`, href: `#/replicators/${encodeURIComponent(replicator.name)}`,
      look: replicator.error ? "bad" : replicator.activity === "stopped" || replicator.activity === "offline" ? "idle" : "live", kind: "replicator" });
    edges.push({ from: `database ${replicator.database}`, to: id, type: replicator.type, look: replicator.error ? "bad" : replicator.activity === "busy" ? "busy" : replicator.activity });
    const local = /^local:(.+)$/.exec(replicator.target);
    if (local) edges.push({ from: `database ${local[1]}`, to: id, look: "idle" });
  }
  return width < 620 ? tall(columns, edges, Math.max(width, 240)) : wide(columns, edges, width);
}

const HEIGHT = 52;
const GAP = 14;

function wide(columns, edges, width) {
  const most = Math.max(...columns.map((column) => column.length), 1);
  const height = most * (HEIGHT + GAP) + 22;
  const box = Math.min(300, Math.floor((width - 140) / 3));
  const places = {};
  const heads = ["Listeners and peers", "Databases", "Replicators"];
  columns.forEach((column, index) => {
    const x = index === 0 ? 1 : index === 1 ? (width - box) / 2 : width - box - 1;
    const top = 24 + (height - 24 - column.length * (HEIGHT + GAP) + GAP) / 2;
    column.forEach((entry, row) => { places[entry.id] = { ...entry, x, y: top + row * (HEIGHT + GAP), width: box }; });
  });
  const lines = edges.map(({ from, to, look, type }) => {
    const [a, b] = [places[from], places[to]];
    if (!a || !b) return null;
    const [x1, y1, x2, y2] = [a.x + a.width, a.y + HEIGHT / 2, b.x, b.y + HEIGHT / 2];
    const middle = (x1 + x2) / 2;
    return [h("path", { class: `edge ${look}`, d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` }), arrows(type, x1, y1, x2, y2)];
  });
  return drawing(width, height, lines, [
    ...heads.map((head, index) => h("text", { class: "head", x: index === 0 ? 1 : index === 1 ? width / 2 : width - 1, y: 13, "text-anchor": ["start", "middle", "end"][index] }, head)),
    ...Object.values(places).map(node)]);
}

function arrows(type, x1, y1, x2, y2) {
  return [
    type && type !== "pull" && h("path", { class: "tip", d: `M${x2 - 8} ${y2 - 4}l8 4l-8 4z` }),
    type && type !== "push" && h("path", { class: "tip", d: `M${x1 + 8} ${y1 - 4}l-8 4l8 4z` }),
  ];
}

function tall(columns, edges, width) {
  const places = {};
  const heads = [];
  let y = 0;
  ["Listeners and peers", "Databases", "Replicators"].forEach((head, index) => {
    if (!columns[index].length) return;
    heads.push(h("text", { class: "head", x: 30, y: y + 13 }, head));
    y += 22;
    for (const entry of columns[index]) {
      places[entry.id] = { ...entry, x: 30, y, width: width - 31 };
      y += HEIGHT + GAP;
    }
    y += 6;
  });
  const lines = edges.map(({ from, to, look }, index) => {
    const [a, b] = [places[from], places[to]];
    if (!a || !b) return null;
    const x = 24 - (index % 4) * 6;
    return h("path", { class: `edge ${look}`, d: `M30 ${a.y + HEIGHT / 2}H${x}V${b.y + HEIGHT / 2}H30` });
  });
  return drawing(width, y, lines, [...heads, ...Object.values(places).map(node)]);
}

function drawing(width, height, lines, nodes) {
  return h("svg", { class: "topology", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Listeners, databases and replicators, and how they are connected" },
    h("g", { "aria-hidden": "true" }, lines), h("g", null, nodes));
}

function node(entry) {
  const fit = (text, size) => { const most = Math.floor((entry.width - 30) / size); return text.length > most ? `${text.slice(0, most - 1)}…` : text; };
  const parts = h("g", { class: `node ${entry.look}` },
    h("title:svg", null, `${entry.id}: ${entry.under}`),
    h("rect", { x: entry.x, y: entry.y, width: entry.width, height: HEIGHT, rx: 8 }),
    h("circle", { cx: entry.x + 16, cy: entry.y + 19, r: 4 }),
    h("text", { class: "title", x: entry.x + 28, y: entry.y + 23 }, fit(entry.title, 7.8)),
    h("text", { class: "under", x: entry.x + 28, y: entry.y + 40 }, fit(entry.under, 6.3)));
  if (!entry.href) return parts;
  const anchor = h("a:svg", { href: entry.href, "aria-label": `${entry.id}: ${entry.under}` });
  anchor.append(parts);
  return anchor;
}
