// The connection to the gateway: pairs this browser once, connects, and reconnects after a failure.
// Nothing private is sent or shown before the gateway has proven itself.

import { keep, kept } from "./keyring.js";
import { linkKey, Proof } from "./proof.js";

/** @import * as frames from "../frames.js" */
/** @import { OwnKey } from "./proof.js" */
/** The state of the connection.
 * @typedef {"connecting" | "live" | "offline" | "impostor"} State */

const PAUSES = [1, 2, 4, 8, 15, 30]; // seconds between attempts; the last one repeats
const PATIENCE = 15_000; // milliseconds without an answer before the connection counts as dead

/** @type {(text: string) => unknown} */
const parse = JSON.parse;

/** Remove a pairing link's token from the address bar, before it can be copied from there,
 * and return it. The link's conversation stays in the address. */
export function tokenFromLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  const token = link.get("t");
  if (token === null) return null;
  const chat = link.get("c");
  history.replaceState(null, "", chat ? `/#/c/${encodeURIComponent(chat)}` : "/");
  return token;
}

export class Live {
  /** @type {WebSocket | null} */
  #socket = null;
  #proven = false; // whether the gateway has proven itself on it
  /** From a pairing link.
   * @type {string | null} */
  #token = null;
  /** The key from a pairing link, until the gateway accepts it.
   * @type {OwnKey | null} */
  #fresh = null;
  #linkFailed = false;
  #failures = 0;
  #attempts = 0;
  #timer = 0;
  /** Expected answer → time of the request.
   * @type {Map<string, number>} */
  #owed = new Map();
  #onFrame;
  #onState;
  #onRefused;
  /** @type {State} */
  state = "connecting";

  /** `onState` receives each change of state, with the time of the next attempt if there is one,
   * and the number of failures in a row. `onRefused` is called when this browser is not
   * admitted, with whether a link was tried.
   * @param {{
   *   onFrame: (frame: frames.Tell) => void,
   *   onState: (state: State, until: number | null, failures: number) => void,
   *   onRefused: (linkFailed: boolean) => void,
   * }} callbacks */
  constructor({ onFrame, onState, onRefused }) {
    this.#onFrame = onFrame;
    this.#onState = onState;
    this.#onRefused = onRefused;
    setInterval(() => this.#checkOwed(), 1000);
  }

  /** Connect. With a token, pair this browser first.
   * @param {string | null} token */
  open(token) {
    this.#token = token ?? this.#token;
    this.again();
  }

  /** Reconnect now, in any state. */
  again() {
    clearTimeout(this.#timer);
    this.#drop();
    this.#attempt().catch(reportError);
  }

  /** Send the frame. Returns false if the connection is not open; a caller that must not lose
   * the frame keeps it. With `owes`, reconnect unless `settled` is called with the same value
   * in time.
   * @param {frames.Ask} frame
   * @param {string | null} owes */
  send(frame, owes = null) {
    if (this.state !== "live" || this.#socket === null) return false;
    this.#socket.send(JSON.stringify(frame));
    if (owes !== null) this.#owed.set(owes, Date.now());
    return true;
  }

  /** @param {string} owes */
  settled(owes) {
    this.#owed.delete(owes);
  }

  #checkOwed() {
    // A connection can be dead without a close event: the phone slept, or the network changed.
    for (const since of this.#owed.values()) {
      if (Date.now() - since > PATIENCE) {
        this.#drop();
        this.#later();
        return;
      }
    }
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    this.#owed.clear();
    socket?.close();
  }

  /** @param {State} state
   * @param {number | null} until */
  #tell(state, until = null) {
    this.state = state;
    this.#onState(state, until, this.#failures);
  }

  async #attempt() {
    const attempt = ++this.#attempts;
    this.#tell("connecting");
    const keys = await this.#keys();
    if (attempt !== this.#attempts) return;
    if (keys.length === 0) {
      this.#onRefused(this.#linkFailed);
      return;
    }
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/live`);
    this.#socket = socket;
    const proof = new Proof(keys);
    this.#proven = false;
    this.#owed.set("hello", Date.now());
    socket.onopen = () => this.#greet(socket, proof);
    // Handle frames one at a time, although some are asynchronous.
    let received = Promise.resolve();
    socket.onmessage = (/** @type {MessageEvent<string>} */ { data }) => {
      received = received.then(() => this.#receive(socket, proof, data)).catch(reportError);
    };
    socket.onclose = () => {
      if (socket !== this.#socket) return;
      this.#drop();
      this.#later();
    };
  }

  /** The keys in the order in which they are tried. A browser that is already paired needs no
   * link, and is not paired again. */
  async #keys() {
    const link = this.#token === null ? null : await linkKey(this.#token);
    return [this.#fresh, await kept(), link].filter((key) => key !== null);
  }

  /** @param {WebSocket} socket
   * @param {Proof} proof */
  #greet(socket, proof) {
    const greeting = proof.greeting();
    if (greeting) {
      socket.send(JSON.stringify(greeting));
      return;
    }
    this.#drop();
    this.#onRefused(this.#linkFailed);
  }

  /** @param {WebSocket} socket
   * @param {Proof} proof
   * @param {string} data */
  async #receive(socket, proof, data) {
    if (socket !== this.#socket) return;
    const frame = /** @type {frames.Tell} */ (parse(data));
    if (frame.is === "unknown") this.#forget(socket, proof);
    else if (frame.is === "proof") await this.#prove(socket, proof, frame);
    else if (this.#proven) await this.#hear(socket, frame);
    else this.#distrust();
  }

  /** The gateway does not know the key that was tried. A stored key is kept: anyone could
   * claim this.
   * @param {WebSocket} socket
   * @param {Proof} proof */
  #forget(socket, proof) {
    if (proof.tried?.isLink) {
      this.#token = null;
      this.#linkFailed = true;
    }
    this.#fresh = null;
    this.#proven = false;
    this.#greet(socket, proof);
  }

  /** @param {WebSocket} socket
   * @param {Proof} proof
   * @param {frames.Proof} frame */
  async #prove(socket, proof, frame) {
    const answer = await proof.answer(frame);
    const link = answer && proof.tried?.isLink ? proof.tried : null;
    const fresh = link && (await proof.paired(link, frame));
    if (socket !== this.#socket) return;
    if (answer === null) {
      this.#distrust();
      return;
    }
    this.#fresh = fresh ?? this.#fresh;
    this.#proven = true;
    socket.send(JSON.stringify(answer));
  }

  /** The server at this address is not the gateway. */
  #distrust() {
    this.#drop();
    this.#later("impostor");
  }

  /** @param {State} state */
  #later(state = "offline") {
    const pause = PAUSES[Math.min(this.#failures, PAUSES.length - 1)] * (0.8 + 0.4 * Math.random());
    this.#failures += 1;
    this.#tell(state, Date.now() + pause * 1000);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.again(), pause * 1000);
  }

  /** @param {WebSocket} socket
   * @param {frames.Tell} frame */
  async #hear(socket, frame) {
    if (frame.is === "hello") {
      if (this.#fresh) await keep(this.#fresh); // before anything else, so that a reload finds it
      if (socket !== this.#socket) return;
      this.#failures = 0;
      this.#token = null;
      this.#linkFailed = false;
      this.#fresh = null;
      this.settled("hello");
      this.#tell("live");
    }
    this.#onFrame(frame);
  }
}
