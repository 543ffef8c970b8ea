import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import type { Caller } from "../../src/domain/kernel/caller.ts";
import { BodyMemory } from "../../src/http/request-guards.ts";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

/** Empty objects, each of which counts twice: nearly as many names and values as a body may have. */
const PARTS = 120_000;
const REQUESTS = 30;
/** Bodies of which all but a byte has come: twenty of them are more than a tenant may have in memory. */
const ARRIVED_BYTES = 5_000_000;
const SENDERS = 26;

const MIB = 1024 * 1024;
const keyOf = (tenantId: string): Caller => ({ kind: "key", tenantId }) as Caller;

describe("the memory of bodies", () => {
  const refusal = { code: "SERVICE_UNAVAILABLE", reason: "SERVER_BUSY" };

  it("is no less for tenants when callers without a tenant take all of theirs, from any addresses", () => {
    const bodies = new BodyMemory();
    const outsider = { kind: "anonymous" } as const;
    for (let n = 0; n < 32; n++) bodies.open(outsider, `203.0.113.${n}`).hold(MIB);
    const late = "203.0.113.99";
    bodies.open(outsider, late).hold(200_000);
    assert.throws(() => bodies.open(outsider, late).hold(200_000), refusal);
    for (let n = 0; n < 90; n++) bodies.open(keyOf("b"), late).hold(MIB);
  });

  it("is enough for several bodies of a tenant while others have taken all", () => {
    const bodies = new BodyMemory();
    for (const other of ["a", "b", "c"])
      for (let n = 0; n < 85; n++) bodies.open(keyOf(other), "203.0.113.1").hold(MIB);
    const own = Array.from({ length: 7 }, () => bodies.open(keyOf("d"), "203.0.113.2"));
    for (const one of own) one.hold(MIB);
    assert.throws(() => bodies.open(keyOf("d"), "203.0.113.2").hold(2 * MIB), refusal);
    for (const one of own) one.release();
    bodies.open(keyOf("d"), "203.0.113.2").hold(5 * MIB);
  });
});

describe("bodies that are large in memory", () => {
  let tenant: Tenant;
  let other: Tenant;
  const sockets: Socket[] = [];
  const api = madeOnce(startApp);
  before(async () => {
    [tenant, other] = [await aTenant(api), await aTenant(api)];
  });
  after(() => sockets.forEach((socket) => socket.destroy()));

  const event = { externalUserId: "ada", eventType: "thing" };
  const postBatch = async (key: string, body: Buffer): Promise<{ status: number; reason?: string }> => {
    const headers = { "X-API-Key": key, "Content-Type": "application/json", "Content-Encoding": "gzip" };
    const answer = await fetch(`${api.url}/api/v1/events/batch`, { method: "POST", headers, body });
    const { error } = (await answer.json()) as { error?: { reason?: string } };
    return { status: answer.status, ...(error?.reason === undefined ? {} : { reason: error.reason }) };
  };

  it("are bounded for a tenant, however few bytes were sent, and harm no other", async () => {
    const filler = Array.from({ length: PARTS }, () => ({}));
    const bomb = gzipSync(JSON.stringify({ events: [{ ...event, x: filler }] }));
    assert.ok(bomb.length < 2_000, "it costs its sender nothing");
    const attack = Promise.all(Array.from({ length: REQUESTS }, () => postBatch(tenant.key, bomb)));
    must(await api.post("/api/v1/events/batch", { events: [event] }, { key: other.key }), 200);
    const refused = (await attack).filter(({ status }) => status !== 200);
    assert.ok(refused.length > 0, "nothing bounds them");
    for (const one of refused) assert.deepEqual(one, { status: 503, reason: "SERVER_BUSY" });
    assert.equal((await postBatch(tenant.key, bomb)).status, 200, "one alone is taken");
  });

  it("are bounded while they arrive, however slowly, and let go when their senders have gone", async () => {
    const { hostname, port } = new URL(api.url);
    const part = Buffer.alloc(ARRIVED_BYTES, " ");
    const senders: Socket[] = [];
    let refused = 0;
    const send = (framing: string, bytes: Buffer | string): void => {
      const socket = connect({ host: hostname, port: Number(port) });
      socket.on("error", () => undefined);
      socket.on("data", (answer) => (refused += Number(/^HTTP\/1.1 503/.test(answer.toString()))));
      const headers = ["Host: localhost", `X-API-Key: ${tenant.key}`, "Content-Type: application/json"];
      socket.write(["POST /api/v1/events/batch HTTP/1.1", ...headers, framing, "", ""].join("\r\n"));
      socket.write(bytes);
      senders.push(socket);
    };
    for (let n = 0; n < SENDERS; n++) send(`Content-Length: ${ARRIVED_BYTES + 1}`, part);
    await eventually(() => refused > 0, { timeoutMs: 60_000, label: "too many are refused" });
    assert.ok(refused < SENDERS / 2, `${refused} refused`);
    const before = refused;
    send("Transfer-Encoding: chunked", `${(1024 * 1024).toString(16)}\r\n${" ".repeat(1024 * 1024)}\r\n`);
    await eventually(() => refused > before, { label: "one without a length is refused, too" });
    must(await api.post("/api/v1/events/batch", { events: [event] }, { key: other.key }), 200);
    for (const socket of senders) socket.destroy();
    const large = { events: [{ ...event, x: " ".repeat(ARRIVED_BYTES / 2) }] };
    await eventuallyHolds(async () => {
      const options = { key: tenant.key };
      must(await api.post("/api/v1/events/batch", large, options), 200);
    });
  });
});
