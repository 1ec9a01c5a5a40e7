// A user's client, as Element has it: the real matrix-js-sdk with its cryptography. It exchanges
// encrypted messages only with devices that are signed by their owners (cross-signing).
//
// tests/harness/element.py starts it with the folder of the library, and sends it one command a
// line: {"do": NAME, ...}. Each is answered with one line: {"found": ...} or {"error": TEXT}.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const resolvers = () => {
    const made = {};
    made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
    return made;
};
Promise.withResolvers ??= resolvers; // Node 20 does not have it

const library = `${process.argv[2]}/node_modules/matrix-js-sdk/lib`;
const sdk = await import(`${library}/index.js`);
const crypto = await import(`${library}/crypto-api/index.js`);
console.log = console.debug = console.info = console.warn = console.error; // stdout is for answers

let client, request, emoji, verifying;
let requested = Promise.resolve();

/** Fetch, but show no news while a request of a verification is being sent: the library knows the
 * request only after its sending, and ignores an answer that comes sooner. */
async function fetchInOrder(url, options) {
    const response = await fetch(url, options);
    if (`${url}`.includes("/sync?")) await requested;
    return response;
}

/** Wait until the condition gives something, and look again after each of these events. */
async function until(emitter, event, condition) {
    const { promise, resolve } = Promise.withResolvers();
    const look = async () => {
        const found = await condition();
        if (found) resolve(found);
    };
    emitter.on(event, look);
    void look();
    try {
        return await promise;
    } finally {
        emitter.off(event, look);
    }
}

const room = (id) => until(client, sdk.ClientEvent.Room, () => client.getRoom(id));

async function compare() {
    const { Ready, Cancelled } = crypto.VerificationPhase;
    const isOver = () => [Ready, Cancelled].includes(request.phase);
    await until(request, crypto.VerificationRequestEvent.Change, isOver);
    const verifier = await request.startVerification("m.sas.v1");
    const { promise, resolve, reject } = Promise.withResolvers();
    verifier.on(crypto.VerifierEvent.ShowSas, resolve);
    const shown = verifier.getShowSasCallbacks();
    if (shown) resolve(shown);
    verifying = verifier.verify();
    verifying.catch(reject);
    emoji = await promise;
    return emoji.sas.emoji;
}

/** Wait until the library knows the user's identity: it asks for it once it has seen the room. */
async function identified(own, user) {
    while (!(await own.userHasCrossSigningKeys(user))) await sleep(50);
}

const commands = {
    /** Sign in on a new device, and sign that with the user's own keys, which are made first. */
    async start({ url, user, password, recovery }) {
        const login = { type: "m.login.password", identifier: { type: "m.id.user", user }, password };
        const found = await sdk.createClient({ baseUrl: url }).loginRequest(login);
        const privateKey = Uint8Array.from(Buffer.from(recovery, "hex"));
        client = sdk.createClient({
            baseUrl: url,
            userId: found.user_id,
            deviceId: found.device_id,
            accessToken: found.access_token,
            fetchFn: fetchInOrder,
            cryptoCallbacks: {
                getSecretStorageKey: async ({ keys }) => [Object.keys(keys)[0], privateKey],
            },
        });
        await client.initRustCrypto({ useIndexedDB: false });
        const own = client.getCrypto();
        own.setDeviceIsolationMode(new crypto.OnlySignedDevicesIsolationMode());
        await client.startClient();
        await until(client, sdk.ClientEvent.Sync, () => client.isInitialSyncComplete());
        await own.getUserDeviceInfo([found.user_id], true);
        await own.bootstrapCrossSigning({ authUploadDeviceSigningKeys: (make) => make(null) });
        await own.bootstrapSecretStorage({ createSecretStorageKey: async () => ({ privateKey }) });
        return found.device_id;
    },
    /** Start an encrypted direct message. */
    async direct({ user }) {
        const state = { type: "m.room.encryption", state_key: "", content: { algorithm: "m.megolm.v1.aes-sha2" } };
        const given = { preset: "trusted_private_chat", is_direct: true, invite: [user], initial_state: [state] };
        const { room_id } = await client.createRoom(given);
        await room(room_id);
        return room_id;
    },
    async say({ room: id, text }) {
        await room(id);
        return (await client.sendTextMessage(id, text)).event_id;
    },
    /** Wait until the room shows that text of another user. */
    async see({ room: id, text }) {
        const shows = (event) => event.getSender() !== client.getUserId() && event.getContent().body?.includes(text);
        const find = () => client.getRoom(id)?.getLiveTimeline().getEvents().some(shows);
        await Promise.race([
            until(client, sdk.MatrixEventEvent.Decrypted, find),
            until(client, sdk.RoomEvent.Timeline, find),
        ]);
    },
    /** Request the verification of a user, and return the emoji. */
    async verify({ user, room: id }) {
        const own = client.getCrypto();
        await identified(own, user);
        const sending = own.requestVerificationDM(user, id);
        requested = sending.catch(() => undefined);
        request = await sending;
        return compare();
    },
    /** The same for a device, without a room. */
    async verifyDevice({ user, device }) {
        const own = client.getCrypto();
        await own.getUserDeviceInfo([user], true);
        request = await own.requestDeviceVerification(user, device);
        return compare();
    },
    /** Say that the emoji are the same. */
    async confirm() {
        await emoji.confirm();
    },
    /** Wait until both sides have said so. */
    async finish() {
        await verifying;
    },
    /** Say that the emoji differ. */
    async deny() {
        emoji.mismatch();
        await verifying.catch(() => undefined);
    },
    /** Wait until the client shows that the user is verified. */
    async verified({ user }) {
        await until(client, crypto.CryptoEvent.UserTrustStatusChanged, async () =>
            (await client.getCrypto().getUserVerificationStatus(user)).isCrossSigningVerified(),
        );
    },
    /** Wait until the client has signed that device of the user. */
    async signed({ device }) {
        const own = client.getCrypto();
        await until(client, crypto.CryptoEvent.DevicesUpdated, async () =>
            (await own.getDeviceVerificationStatus(client.getUserId(), device))?.signedByOwner,
        );
    },
    /** Replace the user's identity. */
    async reset({ password }) {
        const identifier = { type: "m.id.user", user: client.getUserId() };
        const authorise = async (make) => {
            const { session } = await make(null).catch(({ data }) => data);
            await make({ type: "m.login.password", identifier, password, session });
        };
        const given = { setupNewCrossSigning: true, authUploadDeviceSigningKeys: authorise };
        await client.getCrypto().bootstrapCrossSigning(given);
    },
};

for await (const line of createInterface({ input: process.stdin })) {
    const { do: name, ...given } = JSON.parse(line);
    let answer;
    try {
        answer = { found: (await commands[name](given)) ?? null };
    } catch (error) {
        answer = { error: `${error.stack ?? error}` };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit();
