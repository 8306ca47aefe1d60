// The admin API: requests, reading the beginning of long lists, and the event stream.

const KEY = "nightjar-token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  clear: () => sessionStorage.removeItem(KEY),
};

let onLogin = () => {};
export const whenLoginIsNeeded = (action) => { onLogin = action; };

async function send(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  const secret = token.get();
  if (secret) headers.Authorization = `Bearer ${secret}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the agent does not answer");
  }
  if (answer.ok) return answer;
  let reason = `HTTP ${answer.status}`;
  try { reason = (await answer.json()).reason ?? reason; } catch { /* no JSON: the status has to do */ }
  if (answer.status === 401) onLogin(secret ? reason : "");
  throw new Refused(answer.status, reason);
}

export const get = async (path) => (await send(path)).json();
export const text = async (path) => (await send(path)).text();
export const post = async (path, body) => (await send(path, { method: "POST", body })).json();
export const put = async (path, body) => (await send(path, { method: "PUT", body })).json();
export const remove = async (path) => (await send(path, { method: "DELETE" })).json();

/** The first rows of a list of any length: the agent writes one row per line, and reading stops when there are enough. */
export async function rows(path, most) {
  const stop = new AbortController();
  const answer = await send(path, { signal: stop.signal });
  const found = [];
  for await (const line of lines(answer.body)) {
    const row = line.replace(/,$/, "");
    if (row === "[" || row === "]" || row === "[]" || row === "") continue;
    if (found.length === most) {
      stop.abort();
      return { rows: found, more: true };
    }
    found.push(JSON.parse(row));
  }
  return { rows: found, more: false };
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      yield* parts;
    }
    if (rest) yield rest;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Server-sent events, with the token in a header, which EventSource cannot send. Returns when the stream ends.
 * @param {(name: string, data: any) => void} handle
 */
export async function events(path, signal, handle) {
  const answer = await send(path, { signal });
  let name = "message";
  let data = "";
  for await (const line of lines(answer.body)) {
    if (line === "") {
      if (data) handle(name, JSON.parse(data));
      name = "message";
      data = "";
    } else if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
}

export const at = (...parts) => "api/" + parts.map(encodeURIComponent).join("/");
