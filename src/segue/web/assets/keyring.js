// The key of this browser. Where the browser keeps nothing, it lives as long as the page.

const NAME = "segue";

let memory = null;

/** The answer to a request of a database. */
const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function stored(mode, act) {
  const opening = indexedDB.open(NAME, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(NAME);
  const database = await done(opening);
  try {
    return await done(act(database.transaction(NAME, mode).objectStore(NAME)));
  } finally {
    database.close();
  }
}

/** With its id; null when this browser is not paired. */
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
