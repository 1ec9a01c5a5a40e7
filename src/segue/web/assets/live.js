// The line to the gateway: paired once, opened, and opened again whenever it breaks. Nothing is said
// or shown before the gateway has proven itself.

import { keep, kept } from "./keyring.js";
import { linkKey, Proof } from "./proof.js";

const PAUSES = [1, 2, 4, 8, 15, 30]; // seconds; the last one again and again
const PATIENCE = 15_000; // for the gateway to answer, before the line counts as dead

/** Take the token of a pairing link out of the address bar, before anybody can copy it from there.
 * What stays is the conversation that the link leads to. */
export function tokenFromLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  const token = link.get("t");
  if (token === null) return null;
  const chat = link.get("c");
  history.replaceState(null, "", chat ? `/#/c/${encodeURIComponent(chat)}` : "/");
  return token;
}

export class Live {
  #socket = null;
  #proof = null; // on this line
  #proven = false; // whether the gateway has proven itself on it
  #token = null; // of a link
  #fresh = null; // the key that a link has given, until the gateway says so
  #linkFailed = false;
  #failures = 0;
  #attempts = 0;
  #timer = 0;
  #owed = new Map(); // what must be answered → since when

  /** `hears` gets each frame, `tells` each change of state ("connecting", "live", or, with the time
   * of the next attempt, "offline" and "impostor"), and `refuses` whether a link was tried when this
   * browser is not let in. */
  constructor({ hears, tells, refuses }) {
    this.hears = hears;
    this.tells = tells;
    this.refuses = refuses;
    this.state = "connecting";
    setInterval(() => this.#checkOwed(), 1000);
  }

  /** Open the line; with a token, pair this browser first. */
  open(token = null) {
    this.#token = token ?? this.#token;
    this.again();
  }

  /** Try now, whatever the line is doing. */
  again() {
    clearTimeout(this.#timer);
    this.#drop();
    this.#attempt();
  }

  /** False when the line is not open: whoever must not lose the frame keeps it. With `owes`, the
   * line is opened anew unless `settled` is called with the same in time. */
  send(frame, owes = null) {
    if (this.state !== "live") return false;
    this.#socket.send(JSON.stringify(frame));
    if (owes !== null) this.#owed.set(owes, Date.now());
    return true;
  }

  settled(owes) {
    this.#owed.delete(owes);
  }

  #checkOwed() {
    // A line can be dead without anybody having said so: a phone that slept, a network that changed.
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

  #tell(state, until = null) {
    this.state = state;
    this.tells(state, until);
  }

  async #attempt() {
    const attempt = ++this.#attempts;
    this.#tell("connecting");
    const keys = await this.#keys();
    if (attempt !== this.#attempts) return;
    if (keys.length === 0) {
      this.refuses(this.#linkFailed);
      return;
    }
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/live`);
    this.#socket = socket;
    this.#proof = new Proof(keys);
    this.#proven = false;
    this.#owed.set("hello", Date.now());
    socket.onopen = () => this.#greet();
    // One frame after the other, although some take a moment.
    let received = Promise.resolve();
    socket.onmessage = ({ data }) => {
      received = received.then(() => this.#receive(socket, JSON.parse(data))).catch(reportError);
    };
    socket.onclose = () => {
      if (socket !== this.#socket) return;
      this.#drop();
      this.#later();
    };
  }

  /** In the order in which they are tried: a link that was used before does no harm to a browser
   * which is paired already. */
  async #keys() {
    const link = this.#token === null ? null : await linkKey(this.#token);
    return [this.#fresh, link, await kept()].filter((key) => key !== null);
  }

  #greet() {
    const greeting = this.#proof.greeting();
    if (greeting) {
      this.#socket.send(JSON.stringify(greeting));
      return;
    }
    this.#drop();
    this.refuses(this.#linkFailed);
  }

  async #receive(socket, frame) {
    if (socket !== this.#socket) return;
    if (frame.is === "unknown") this.#forget();
    else if (frame.is === "proof") await this.#prove(socket, frame);
    else if (this.#proven) await this.#hear(socket, frame);
    else this.#distrust();
  }

  /** The key that was tried is not, or no longer, good. One that is kept stays so: anybody could say
   * that. */
  #forget() {
    if (this.#proof.tried.isLink) {
      this.#token = null;
      this.#linkFailed = true;
    }
    this.#fresh = null;
    this.#proven = false;
    this.#greet();
  }

  async #prove(socket, frame) {
    const proof = this.#proof;
    const answer = await proof.answer(frame);
    const fresh = answer && proof.tried.isLink ? await proof.paired(frame) : null;
    if (socket !== this.#socket) return;
    if (answer === null) {
      this.#distrust();
      return;
    }
    this.#fresh = fresh ?? this.#fresh;
    this.#proven = true;
    socket.send(JSON.stringify(answer));
  }

  /** What answers there is not the gateway. */
  #distrust() {
    this.#drop();
    this.#later("impostor");
  }

  #later(state = "offline") {
    const pause = PAUSES[Math.min(this.#failures, PAUSES.length - 1)] * (0.8 + 0.4 * Math.random());
    this.#failures += 1;
    this.#tell(state, Date.now() + pause * 1000);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#attempt(), pause * 1000);
  }

  async #hear(socket, frame) {
    if (frame.is === "hello") {
      if (this.#fresh) await keep(this.#fresh); // a reload must find it
      if (socket !== this.#socket) return;
      this.#failures = 0;
      this.#token = null;
      this.#linkFailed = false;
      this.#fresh = null;
      this.settled("hello");
      this.#tell("live");
    }
    this.hears(frame);
  }
}
