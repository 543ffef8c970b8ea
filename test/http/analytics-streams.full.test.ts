import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { sql } from "kysely";
import { aTenant, startApp } from "../support/app/app.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { openCursors, storePastEvents } from "../support/data/data.ts";
import { eventually } from "../support/eventually.ts";
import { madeOnce } from "../support/made.ts";

const EVENTS = 30_000;
/** Far more than the kernel keeps for a connection. */
const LEAST_BYTES = 30 * 1024 * 1024;
const QUERY = "report=events&format=ndjson&from=2026-03-01&to=2026-03-31";

describe("exports of analytics that are streamed", () => {
  const sockets: Socket[] = [];

  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { analyticsHistoryDays: null });
    const text = "x".repeat(1_000);
    await storePastEvents(
      api,
      tenant.projectId,
      Array.from({ length: EVENTS }, (_, i) => ({
        externalUserId: `user-${i % 20}`,
        eventType: "quiz",
        timestamp: new Date(Date.UTC(2026, 2, 1) + i * 60_000).toISOString(),
        idempotencyKey: `key-${i}`,
        properties: { i, text },
      })),
    );
  });
  after(() => {
    for (const socket of sockets) socket.destroy();
  });

  /** Asks for an export on a connection of its own. */
  const ask = (query = QUERY, headers = ""): Socket => {
    const socket = connect({ host: "127.0.0.1", port: api.port });
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.write(
      `GET /api/v1/analytics/export?${query} HTTP/1.1\r\nHost: x\r\n` +
        `X-API-Key: ${tenant.key}\r\n${headers}\r\n`,
    );
    return socket;
  };
  const readAll = async (socket: Socket): Promise<string> => {
    const chunks: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => void chunks.push(chunk));
    await once(socket, "close");
    return Buffer.concat(chunks).toString("latin1");
  };
  const noCursors = () =>
    eventually(async () => (await openCursors(api)).length === 0, { timeoutMs: 60_000, label: "no cursor" });

  it("end with the number of their rows, compressed or not", async () => {
    for (const encoding of ["", "Accept-Encoding: gzip\r\n"]) {
      const text = await readAll(ask(QUERY, `${encoding}Connection: close\r\n`));
      assert.match(text, /\r\ntransfer-encoding: chunked\r\n/i);
      assert.equal(/\r\ncontent-encoding: gzip\r\n/i.test(text), encoding !== "");
      assert.ok(text.endsWith(`\r\n0\r\nX-Export-Rows: ${EVENTS}\r\n\r\n`), text.slice(-80));
      if (encoding === "") assert.ok(text.length > LEAST_BYTES);
    }
    await noCursors();
  });

  it("leave nothing open where the client goes", async () => {
    const socket = ask();
    await once(socket, "readable");
    assert.equal((await openCursors(api)).length, 1);
    socket.destroy();
    await noCursors();
  });

  it("break where they cannot be completed, and are never just shorter", async () => {
    const socket = ask();
    await once(socket, "readable");
    const [cursor] = await openCursors(api);
    await api.sql`close ${sql.id(cursor!)}`;
    const text = await readAll(socket);
    assert.ok(text.length > 0 && text.length < LEAST_BYTES);
    assert.ok(!text.includes("X-Export-Rows: "), "there is a trailer");
    assert.ok(!text.endsWith("\r\n0\r\n\r\n"), "it looks complete");
  });

  it("are one at a time for a tenant", async () => {
    const slow = ask();
    await once(slow, "readable");
    const other = await aTenant(api);
    const quick = await fetch(`${api.url}/api/v1/analytics/export?report=segments`, {
      headers: { "X-API-Key": other.key },
    });
    assert.equal(quick.status, 200);
    const waiting = await fetch(`${api.url}/api/v1/analytics/export?report=segments`, {
      headers: { "X-API-Key": tenant.key },
    });
    assert.equal(waiting.status, 503);
    slow.destroy();
    await noCursors();
  });
});
