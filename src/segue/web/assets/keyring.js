// This browser's key. If the browser refuses storage, it lives as long as the page.

const NAME = "segue";

let memory = null;

/** Resolves to the database, once it is open. */
const opened = (opening) =>
  new Promise((resolve, reject) => {
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });

/** Resolves to the request's result, once its transaction has completed. */
const committed = (request) =>
  new Promise((resolve, reject) => {
    request.transaction.oncomplete = () => resolve(request.result);
    request.transaction.onabort = () => reject(request.transaction.error);
  });

async function stored(mode, act) {
  const opening = indexedDB.open(NAME, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(NAME);
  const database = await opened(opening);
  try {
    return await committed(act(database.transaction(NAME, mode).objectStore(NAME)));
  } finally {
    database.close();
  }
}

/** The key with its id, or null if this browser is not paired. */
export async function kept() {
  try {
    return memory ?? (await stored("readonly", (keys) => keys.get("browser"))) ?? null;
  } catch {
    return null;
  }
}

export async function keep(key) {
  try {
    await stored("readwrite", (keys) => keys.put(key, "browser"));
    memory = null;
  } catch {
    memory = key;
  }
}
