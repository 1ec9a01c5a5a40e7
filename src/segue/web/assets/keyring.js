// This browser's key. If the browser refuses storage, it lives as long as the page.

/** @import { OwnKey } from "./proof.js" */
/** @typedef {{ readonly result: unknown }} StoreRequest */

const NAME = "segue";
const BROWSER = "browser";

/** @type {OwnKey | null} */
let memory = null;

/** Resolves to the database, once it is open.
 * @type {(opening: IDBOpenDBRequest) => Promise<IDBDatabase>} */
const opened = (opening) =>
  new Promise((resolve, reject) => {
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error ?? new Error("The browser has no storage."));
  });

/** Resolves to the request's result, once its transaction has completed.
 * @type {(transaction: IDBTransaction, request: StoreRequest) => Promise<unknown>} */
const committed = (transaction, request) =>
  new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error ?? new Error("The browser stored nothing."));
  });

/** @param {IDBTransactionMode} mode
 * @param {(keys: IDBObjectStore) => StoreRequest} request */
async function stored(mode, request) {
  const opening = indexedDB.open(NAME, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(NAME);
  const database = await opened(opening);
  try {
    const transaction = database.transaction(NAME, mode);
    return await committed(transaction, request(transaction.objectStore(NAME)));
  } finally {
    database.close();
  }
}

/** The key with its id, or null if this browser is not paired.
 * @returns {Promise<OwnKey | null>} */
export async function kept() {
  try {
    const key = memory ?? (await stored("readonly", (keys) => keys.get(BROWSER)));
    return /** @type {OwnKey | undefined} */ (key) ?? null;
  } catch {
    return null;
  }
}

/** @param {OwnKey} key */
export async function keep(key) {
  try {
    await stored("readwrite", (keys) => keys.put(key, BROWSER));
    memory = null;
  } catch {
    memory = key;
  }
}
