// The line to the gateway: paired once, opened, and opened again whenever it breaks.

const PAUSES = [1, 2, 4, 8, 15, 30]; // seconds; the last one again and again
const PATIENCE = 15_000; // for the gateway to answer, before the line counts as dead
const REFUSED = 401;

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

/** The status of the answer; null when there was none. */
async function ask(path, headers = {}) {
  try {
    const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    return answer.status;
  } catch {
    return null; // nobody is there, or it takes too long: to us that is the same
  }
}

export class Live {
  #socket = null;
  #token = null;
  #exchanged = null; // the status of the last exchange
  #failures = 0;
  #attempts = 0;
  #timer = 0;
  #owed = new Map(); // what must be answered → since when

  /** `hears` gets each frame, `tells` each change of state ("connecting", "live", or "offline" with
   * the time of the next attempt), and `refuses` the status of the exchange when this browser is
   * not let in. */
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
    const overtaken = () => attempt !== this.#attempts;
    this.#tell("connecting");
    if (this.#token !== null && !(await this.#exchange(overtaken))) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/live`);
    this.#socket = socket;
    this.#owed.set("hello", Date.now());
    let opened = false;
    socket.onopen = () => (opened = true);
    socket.onmessage = ({ data }) => {
      if (socket === this.#socket) this.#hear(JSON.parse(data));
    };
    socket.onclose = async () => {
      if (socket !== this.#socket) return;
      this.#drop();
      // A browser does not say why a WebSocket was not opened, so ask in a way that does.
      const refused = !opened && (await ask("/live")) === REFUSED;
      if (overtaken()) return;
      if (refused) this.refuses(this.#exchanged);
      else this.#later();
    };
  }

  /** True when the line can be opened. */
  async #exchange(overtaken) {
    const status = await ask("/exchange", { "X-Segue-Token": this.#token });
    if (overtaken()) return false;
    if (status === null) {
      this.#later();
      return false;
    }
    this.#exchanged = status;
    if (status === 429) {
      this.refuses(status); // the token may still be good
      return false;
    }
    // A link that was used before does no harm to a browser which is paired already.
    this.#token = null;
    return true;
  }

  #later() {
    const pause = PAUSES[Math.min(this.#failures, PAUSES.length - 1)] * (0.8 + 0.4 * Math.random());
    this.#failures += 1;
    this.#tell("offline", Date.now() + pause * 1000);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#attempt(), pause * 1000);
  }

  #hear(frame) {
    if (frame.is === "hello") {
      this.#failures = 0;
      this.settled("hello");
      this.#tell("live");
    }
    this.hears(frame);
  }
}
