import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { aTenant, startApp } from "../support/app/app.ts";
import { aJob } from "../support/app/jobs.ts";

/** Larger than what the system takes for a connection whose client reads nothing. */
const RESULT_BYTES = 15_000_000;
/** Twice as long as a response may wait for its client, as Node looks a second time, and a little. */
const PATIENCE_MS = 45_000;

describe("responses that are not read", () => {
  it("end their connection when nothing of them is read for a while", async () => {
    const api = await startApp();
    const tenant = await aTenant(api);
    const id = await aJob(api.app, tenant.projectId, "SUCCEEDED");
    await api.sql`
      update project_jobs set result = jsonb_build_object('text', repeat('x', ${RESULT_BYTES}::int))
      where project_id = ${tenant.projectId} and id = ${id}`;
    const { hostname, port } = new URL(api.url);
    const socket = connect({ host: hostname, port: Number(port) });
    socket.on("error", () => undefined);
    const head = `GET /api/v1/jobs/${id}/result HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${tenant.key}`;
    socket.write(`${head}\r\n\r\n`);
    await once(socket, "readable");
    await delay(PATIENCE_MS);
    let bytes = 0;
    socket.on("data", (chunk: Buffer) => (bytes += chunk.length));
    await once(socket, "close");
    assert.ok(bytes < RESULT_BYTES, `${bytes}`);
  });
});
