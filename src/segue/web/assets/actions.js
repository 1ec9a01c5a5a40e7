// What can be done with a session: move, rename, export, delete.

import { byId } from "./dom.js";

/** @import * as frames from "../frames.js" */
/** @import { AboutChat } from "./requests.js" */

export class Actions {
  #menu = byId("actions");
  /** Parts of exported files, by the key of the request.
   * @type {Map<string, frames.Exported[]>} */
  #files = new Map();

  /** `onRequest` sends a request about the open session and returns its key, or null without a
   * connection. `onMove` is called when the session is to move. `title` returns its title.
   * @param {{
   *   onRequest: (request: AboutChat) => string | null,
   *   onMove: () => void,
   *   title: () => string,
   * }} callbacks */
  constructor({ onRequest, onMove, title }) {
    const name = byId("rename-title");
    byId("do-move").addEventListener("click", () => {
      this.#menu.open = false;
      onMove();
    });
    byId("do-rename").addEventListener("click", () => {
      name.value = title();
      this.#open("rename");
      name.select();
    });
    byId("do-delete").addEventListener("click", () => {
      byId("delete-title").textContent = title();
      this.#open("delete");
    });
    byId("do-export").addEventListener("click", () => {
      this.#menu.open = false;
      const key = onRequest({ do: "export" });
      if (key) this.#files.set(key, []);
    });
    byId("rename").addEventListener("close", () => {
      const isConfirmed = byId("rename").returnValue === "yes";
      if (isConfirmed && name.value.trim()) onRequest({ do: "rename", title: name.value });
    });
    byId("delete").addEventListener("close", () => {
      if (byId("delete").returnValue === "yes") onRequest({ do: "delete" });
    });
    document.addEventListener("click", ({ target }) => {
      if (!(target instanceof Node && this.#menu.contains(target))) this.#menu.open = false;
    });
    this.#menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#menu.open = false;
    });
  }

  /** @param {boolean} visible */
  show(visible) {
    this.#menu.hidden = !visible;
    if (!visible) this.#menu.open = false;
  }

  /** Keep a part of an exported file.
   * @param {frames.Exported} part */
  exported(part) {
    this.#files.get(part.key)?.push(part);
  }

  /** The server has done it. Save the file that was exported.
   * @param {string} key */
  done(key) {
    const parts = this.#files.get(key);
    this.#files.delete(key);
    if (!parts?.length) return;
    const file = new Blob(parts.map(({ text }) => text), { type: "application/x-ndjson" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = parts[0].name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  /** @param {"rename" | "delete"} id */
  #open(id) {
    this.#menu.open = false;
    byId(id).returnValue = "";
    byId(id).showModal();
  }
}
