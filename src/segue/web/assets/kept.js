// What must survive a reload of this tab: drafts, answers that were pressed, and what was said but
// not yet acknowledged. Where the browser keeps nothing, it lives as long as the page.

const memory = new Map();

function read(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return memory.get(name) ?? null;
  }
}

function write(name, text) {
  try {
    if (text) sessionStorage.setItem(name, text);
    else sessionStorage.removeItem(name);
  } catch {
    memory.set(name, text);
  }
}

export const draft = (chat) => read(`draft:${chat}`) ?? "";
export const keepDraft = (chat, text) => write(`draft:${chat}`, text);

/** The answer that was pressed under a message: its data and label, or null. It is forgotten once
 * the message says more than it did then: what came of it. */
export function choice(chat, { no, html }) {
  const kept = JSON.parse(read(`choice:${chat}:${no}`) ?? "null");
  return kept?.under === html.length ? kept : null;
}
export const keepChoice = (chat, { no, html }, button) =>
  write(`choice:${chat}:${no}`, JSON.stringify({ ...button, under: html.length }));
export const forgetChoice = (chat, no) => write(`choice:${chat}:${no}`, null);

/** A key that no other frame has. randomUUID is not there over plain HTTP in a local network. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** The frames that wait for their acknowledgement, in their order. */
export class Outbox {
  #frames = JSON.parse(read("outbox") ?? "[]");

  all() {
    return [...this.#frames];
  }

  add(frame) {
    this.#frames.push(frame);
    this.#keep();
  }

  /** Take the frame with that key out; undefined when it is not, or no longer, in here. */
  settle(key) {
    const found = this.#frames.find((frame) => frame.key === key);
    this.#frames = this.#frames.filter((frame) => frame !== found);
    this.#keep();
    return found;
  }

  #keep() {
    write("outbox", this.#frames.length ? JSON.stringify(this.#frames) : "");
  }
}
