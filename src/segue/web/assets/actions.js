// What can be done with a session: move, rename, export, delete.

import { byId } from "./dom.js";

/** `sends` sends a request about the open session and returns its key, or null without a
 * connection. `says` says a text in it. `title` returns the session's title. */
export class Actions {
  #menu = byId("actions");
  #files = new Map(); // parts of exported files, by the key of the request

  constructor({ sends, says, title }) {
    const name = byId("rename-title");
    byId("do-move").addEventListener("click", () => {
      this.#menu.open = false;
      says("/move"); // the answer has a button for each platform
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
      const key = sends({ do: "export" });
      if (key) this.#files.set(key, []);
    });
    byId("rename").addEventListener("close", ({ target }) => {
      if (target.returnValue === "yes" && name.value.trim()) sends({ do: "rename", title: name.value });
    });
    byId("delete").addEventListener("close", ({ target }) => {
      if (target.returnValue === "yes") sends({ do: "delete" });
    });
    document.addEventListener("click", ({ target }) => {
      if (!this.#menu.contains(target)) this.#menu.open = false;
    });
    this.#menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#menu.open = false;
    });
  }

  show(visible) {
    this.#menu.hidden = !visible;
    if (!visible) this.#menu.open = false;
  }

  /** Keep a part of an exported file. */
  exported({ key, name, text }) {
    this.#files.get(key)?.push({ name, text });
  }

  /** The server has done it. Save the file that was exported. */
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

  #open(id) {
    this.#menu.open = false;
    byId(id).returnValue = "";
    byId(id).showModal();
  }
}
