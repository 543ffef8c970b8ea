import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { sql } from "kysely";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { aJob } from "../support/app/jobs.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";

/** Larger than what the system takes for a connection whose client reads nothing. */
const RESULT_BYTES = 15_000_000;
const CONNECTIONS_MAX = 12;
/** Their bytes together are more than a process lets wait. */
const SCRIPTS = 60;

describe("responses that are not read", () => {
  let api: TestApp;
  let tenant: Tenant;
  let path: string;
  const sockets: Socket[] = [];
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
    const id = await aJob(api.app, tenant.projectId, "SUCCEEDED");
    await api.app.transact(({ db }) =>
      sql`
        update project_jobs set result = jsonb_build_object('text', repeat('x', ${RESULT_BYTES}::int))
        where project_id = ${tenant.projectId} and id = ${id}`.execute(db),
    );
    path = `/api/v1/jobs/${id}/result`;
  });
  after(() => sockets.forEach((socket) => socket.destroy()));

  /** Asks for the result and reads its first bytes only. */
  const askWithoutReading = async (): Promise<void> => {
    const { hostname, port } = new URL(api.url);
    const socket = connect({ host: hostname, port: Number(port) });
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${tenant.key}\r\n\r\n`);
    await once(socket, "readable");
  };
  /** As `askWithoutReading`, without credentials: for the largest fixed answer there is. */
  const askForScript = async (): Promise<void> => {
    const { hostname, port } = new URL(api.url);
    const socket = connect({ host: hostname, port: Number(port) });
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.write("GET /docs/scalar.js HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n\r\n");
    await once(socket, "readable");
  };
  const statusOf = async (key: string): Promise<number> => (await api.get("/api/v1/jobs", { key })).status;

  it("are bounded for a tenant, harm no other, and end without progress", async () => {
    const other = await aTenant(api);
    while ((await statusOf(tenant.key)) === 200) {
      assert.ok(sockets.length < CONNECTIONS_MAX, "nothing bounds what is unread");
      await askWithoutReading();
    }
    assertError(await api.get("/api/v1/jobs", { key: tenant.key }), 503, "SERVER_BUSY");
    assert.equal(await statusOf(other.key), 200);
    const first = must(await api.get("/api/v1/jobs", { key: other.key }), 200);
    assert.deepEqual(first.data, []);
    await eventually(async () => (await statusOf(tenant.key)) === 200, { timeoutMs: 60_000 });
  });

  it("are nobody else's trouble where they are the same bytes for all who ask", async () => {
    for (let n = 0; n < SCRIPTS; n++) await askForScript();
    assert.equal(await statusOf((await aTenant(api)).key), 200);
  });
});
