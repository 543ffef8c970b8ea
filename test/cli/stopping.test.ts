import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { aPlayer, join, matchmake } from "../support/rooms/sdk.ts";
import { aTenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { clientOf } from "../support/http/client.ts";
import { freePort, migratedDataDir, startProcess } from "../support/processes/process.ts";

/** A process that takes longer to stop ends with code 1: less than Node waits for late headers. */
const SHUTDOWN_TIMEOUT_MS = "8000";

describe("a server that is told to stop", () => {
  let dir: Awaited<ReturnType<typeof migratedDataDir>>;
  before(async () => {
    dir = await migratedDataDir();
  });
  after(() => dir.remove());

  it("does not wait for connections that were opened ahead and never asked for anything", async () => {
    const port = await freePort();
    const env = { DATA_DIR: dir.path, PORT: String(port), DEMO: "off", LOG_LEVEL: "error" };
    const server = await startProcess(["serve"], { ...env, SHUTDOWN_TIMEOUT_MS });
    const silent = connect(port, "127.0.0.1");
    silent.on("error", () => undefined);
    await once(silent, "connect");
    // Connections are accepted in their order.
    assert.equal((await fetch(`http://127.0.0.1:${port}/health/live`)).status, 200);
    server.child.kill("SIGTERM");
    assert.equal(await server.ended, 0, server.output());
  });

  it("answers as before for SHUTDOWN_DELAY_MS, not ready, until it is told again", async () => {
    const port = await freePort();
    const env = { DATA_DIR: dir.path, PORT: String(port), DEMO: "off", LOG_LEVEL: "error" };
    const server = await startProcess(["serve"], {
      ...env,
      SHUTDOWN_TIMEOUT_MS,
      SHUTDOWN_DELAY_MS: "600000",
    });
    const api = clientOf(`http://127.0.0.1:${port}`);
    const { key } = await aTenant(api);
    server.child.kill("SIGTERM");
    await eventually(async () => (await api.get("/health/ready")).status === 503);
    const { token } = await aPlayer(api, key);
    const { room } = await join(api, token, "player");
    room.reconnection.enabled = false;
    const left = new Promise<number>((resolve) => room.onLeave(resolve));
    // The second signal counts when it cannot be the first one, forwarded.
    const again = setInterval(() => server.child.kill("SIGTERM"), 500);
    assert.equal(await server.ended, 0, server.output());
    clearInterval(again);
    assert.equal(await left, 4001);
  });

  it("does not wait for clients that were given a seat in a room and have not come", async () => {
    const port = await freePort();
    const env = { DATA_DIR: dir.path, PORT: String(port), DEMO: "off", LOG_LEVEL: "error" };
    const server = await startProcess(["serve"], { ...env, SHUTDOWN_TIMEOUT_MS });
    const api = clientOf(`http://127.0.0.1:${port}`);
    const { key } = await aTenant(api);
    const { token } = await aPlayer(api, key);
    const { room } = await join(api, token, "player");
    room.reconnection.enabled = false;
    const left = new Promise<number>((resolve) => room.onLeave(resolve));
    assert.equal((await matchmake(api, "joinOrCreate/player", { token })).status, 200);
    server.child.kill("SIGTERM");
    assert.equal(await server.ended, 0, server.output());
    assert.equal(await left, 4001);
  });
});
