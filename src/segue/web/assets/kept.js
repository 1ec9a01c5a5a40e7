// State that survives a reload of this tab: drafts, pressed answers and unacknowledged frames. If
// the browser refuses storage, it lives as long as the page.

/** @import * as frames from "../frames.js" */
/** @typedef {{ data: string, label: string }} Answer */
/** A frame that must not be lost.
 * @typedef {frames.Say | frames.Press | frames.Bring} KeptFrame */

/** @type {Map<string, string>} */
const memory = new Map();

/** @type {(text: string) => unknown} */
const parse = JSON.parse;

/** @param {string} name */
function read(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return memory.get(name) ?? null;
  }
}

/** Keep the text; an empty one removes what was kept.
 * @param {string} name
 * @param {string} text */
function write(name, text) {
  try {
    if (text) sessionStorage.setItem(name, text);
    else sessionStorage.removeItem(name);
  } catch {
    memory.set(name, text);
  }
}

/** @param {string} chat */
export const draft = (chat) => read(`draft:${chat}`) ?? "";
/** @type {(chat: string, text: string) => void} */
export const keepDraft = (chat, text) => write(`draft:${chat}`, text);

/** The answer that the user pressed under a message (data and label), or null. Discarded once
 * the message grows, because it then shows the outcome.
 * @param {string} chat
 * @param {Pick<frames.Message, "no" | "html">} message
 * @returns {Answer | null} */
export function choice(chat, { no, html }) {
  const text = read(`choice:${chat}:${no}`);
  const kept = /** @type {(Answer & { under: number }) | null} */ (text ? parse(text) : null);
  return kept?.under === html.length ? kept : null;
}

/** @type {(chat: string, message: frames.Message, answer: Answer) => void} */
export const keepChoice = (chat, { no, html }, answer) =>
  write(`choice:${chat}:${no}`, JSON.stringify({ ...answer, under: html.length }));

/** @type {(chat: string, no: number) => void} */
export const forgetChoice = (chat, no) => write(`choice:${chat}:${no}`, "");

/** A unique key for a frame. randomUUID is unavailable over plain HTTP in a local network. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** Frames that wait for acknowledgement, in order. */
export class Outbox {
  #frames = /** @type {KeptFrame[]} */ (parse(read("outbox") || "[]"));

  all() {
    return [...this.#frames];
  }

  /** @param {KeptFrame} frame */
  add(frame) {
    this.#frames.push(frame);
    this.#keep();
  }

  /** Remove and return the frame with that key; undefined if there is none.
   * @param {string} key */
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
