import assert from "node:assert/strict";
import { initializeRoomCache } from "@colyseus/core";
import { Redis } from "ioredis";
import { IndexedRedisDriver } from "../../src/platform/redis-driver.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventually } from "../support/eventually.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { type Client, clientOf } from "../support/http/client.ts";
import { aPlayer, grantXp, heardUpTo, join, type Listener, range, seqs } from "../support/rooms/sdk.ts";

describe("rooms in cluster mode", () => {
  let directory: { path: string; remove: () => Promise<void> };
  let services: Services;
  let port: number;
  let web: Laurel;
  let worker: Laurel;
  let api: Client;
  let tenant: Tenant;

  const startWeb = (): Promise<Laurel> =>
    startProcess(["serve"], { ...services.env, ROLES: "web", PORT: String(port) });

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    port = await freePort();
    web = await startWeb();
    worker = await startProcess(["worker"], { ...services.env, ROLES: "worker", PORT: "0" });
    api = clientOf(`http://127.0.0.1:${port}`);
    tenant = await aTenant(api);
  });
  after(async () => {
    for (const laurel of [web, worker]) if (laurel) await kill(laurel);
    await services?.remove();
    await directory?.remove();
  });

  /** Joins as the guide says: again and again until the server is there. */
  const rejoin = (token: string, lastSeq: number): Promise<Listener> =>
    eventually(() => join(api, token, "player", { lastSeq }), {
      timeoutMs: 60_000,
      label: "the client is back",
    });

  it("that have gone while their listing could not be taken away are not listed for long", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const { room } = await join(api, token, "player");
    const redis = new Redis(services.env["REDIS_URL"]!);
    const namespace = services.env["REDIS_NAMESPACE"]!;
    const driver = new IndexedRedisDriver(redis, { namespace, ownProcess: () => "" });
    try {
      const [listed] = await driver.query({ name: "player" });
      assert.equal((listed!.metadata as { playerId: string }).playerId, playerId);
      const roomId = "gone";
      await driver.insert(initializeRoomCache({ ...listed!, roomId }));
      await eventually(async () => !(await driver.has(roomId)), { timeoutMs: 60_000 });
      assert.equal(await driver.has(listed!.roomId), true);
    } finally {
      await driver.shutdown();
      await room.leave();
    }
  });

  it("tell what another process relays, and resume over a restart and a crash without a gap", async () => {
    const { token, playerId } = await aPlayer(api, tenant.key);
    const first = await join(api, token, "player");
    for (let i = 0; i < 3; i++) await grantXp(api, tenant.key, playerId);
    await heardUpTo(first, 4);
    assert.deepEqual(seqs(first), [2, 3, 4]);

    web.child.kill("SIGTERM");
    await grantXp(api, tenant.key, playerId).catch(() => undefined);
    assert.equal(await web.ended, 0, web.output());
    await eventually(() => first.left !== undefined);
    assert.equal(first.left?.code, 4001);
    assert.deepEqual(first.named("session.closed")[0]?.data, { reason: "SHUTDOWN" });

    web = await startWeb();
    const second = await rejoin(token, 4);
    await grantXp(api, tenant.key, playerId);
    const { body: player } = await api.get(`/api/v1/players/${playerId}`, { key: tenant.key });
    await heardUpTo(second, player.seq);
    assert.deepEqual(seqs(second), range(5, player.seq));

    second.room.reconnection.enabled = false;
    await kill(web);
    web = await startWeb();
    const third = await rejoin(token, player.seq);
    await grantXp(api, tenant.key, playerId);
    await heardUpTo(third, player.seq + 1);
    assert.deepEqual(seqs(third), [player.seq + 1]);
    await third.room.leave();
  });
});
