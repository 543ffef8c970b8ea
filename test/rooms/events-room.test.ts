import assert from "node:assert/strict";
import { eventsTopic } from "../../src/domain/kernel/topics.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { allProcessed } from "../support/app/processed.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { aPlayer, join, type Listener, matchmake } from "../support/rooms/sdk.ts";

describe("room events", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
  });
  beforeEach(async () => {
    tenant = await aTenant(api);
  });

  const aToken = async (token: string, { projectId } = tenant): Promise<string> =>
    must(await api.post("/api/v1/auth/ws-token", { projectId }, { token }), 200).token;
  const watch = async (options: object = {}, of = tenant): Promise<Listener> =>
    join(api, await aToken(of.token, of), "events", options);
  const send = async (externalUserId: string, eventType: string, { key } = tenant): Promise<string> =>
    must(await api.post("/api/v1/events", { externalUserId, eventType }, { key }), 200).eventId;
  // oxlint-disable-next-line typescript/no-explicit-any -- as the list of events shows them
  const eventsOf = (listener: Listener): any[] => listener.named("events").flatMap(({ data }) => data.events);
  const idsOf = (listener: Listener): string[] => eventsOf(listener).map(({ id }) => id);

  it("sends a project's events once they are decided, as the list has them", async () => {
    const stranger = await aTenant(api);
    const [watcher, other] = [await watch(), await watch({}, stranger)];
    const ids = [await send("ada", "won"), await send("bob", "lost")];
    const foreign = await send("eve", "won", stranger);
    await eventuallyHolds(() => {
      assert.deepEqual(idsOf(watcher).toSorted(), ids.toSorted());
      assert.deepEqual(idsOf(other), [foreign]);
    });
    const { data } = must(await api.get("/api/v1/events?include=effects", { key: tenant.key }), 200);
    assert.deepEqual(new Set(eventsOf(watcher)), new Set(data));
    assert.deepEqual(eventsOf(watcher)[0].effectCounts, { "player.created": 1 });
    assert.deepEqual(
      watcher.named("events").map(({ data: { skipped } }) => skipped),
      watcher.named("events").map(() => 0),
    );
  });

  it("filters by types, player and status", async () => {
    const banned = await aPlayer(api, tenant.key);
    const [types, player, rejected] = [
      await watch({ eventType: ["won", "tied"] }),
      await watch({ playerId: banned.playerId }),
      await watch({ status: "REJECTED", eventType: ["won"] }),
    ];
    must(
      await api.post(`/api/v1/players/${banned.playerId}/status`, { status: "BANNED" }, { key: tenant.key }),
      200,
    );
    const refused = await send(banned.externalUserId, "won");
    const lost = await send(banned.externalUserId, "lost");
    const tied = await send("ada", "tied");
    await eventuallyHolds(() => {
      assert.deepEqual(idsOf(types).toSorted(), [refused, tied].toSorted());
      assert.deepEqual(idsOf(player).toSorted(), [refused, lost].toSorted());
      assert.deepEqual(idsOf(rejected), [refused]);
    });
    assert.equal(eventsOf(rejected)[0].status, "REJECTED");
  });

  it("skips the oldest of more than a hundred, and says how many", async () => {
    const events = Array.from({ length: 150 }, (_, i) => ({ externalUserId: `u${i}`, eventType: "won" }));
    const { results } = must(await api.post("/api/v1/events/batch", { events }, { key: tenant.key }), 200);
    await allProcessed(api, tenant, 20_000);
    const watcher = await watch();
    const ids: string[] = results.map(({ eventId }: { eventId: string }) => eventId);
    api.app.topics.publish(
      eventsTopic(tenant.projectId),
      ids.map((id, i) => [id, "won", `u${i}`]),
    );
    await eventually(() => watcher.named("events").length === 1);
    assert.equal(watcher.named("events")[0]!.data.skipped, 50);
    assert.deepEqual(idsOf(watcher), ids.toSorted().slice(50));
  });

  it("lets members of every role in, but no players, and puts out who is no member any more", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const refused = await matchmake(api, "joinOrCreate/events", { token });
    assert.partialDeepStrictEqual(refused, {
      status: 403,
      body: { error: { reason: "CONSOLE_TOKEN_REQUIRED" } },
    });
    const viewer = await aMember(api, tenant.tenantId, "VIEWER");
    const [stays, leaves] = [await watch(), await join(api, await aToken(viewer.token), "events")];
    assert.equal(stays.room.roomId, leaves.room.roomId);
    await api.app.transact(async ({ em }) => {
      (await em.findOneOrFail(User, { id: viewer.userId })).status = "SUSPENDED";
    });
    await eventually(() => leaves.left !== undefined);
    assert.deepEqual([leaves.left?.code, leaves.named("session.closed")[0]?.data.reason], [4403, "REMOVED"]);
    assert.equal(stays.left, undefined);
  });

  it("refuses bad options, and players of others", async () => {
    const token = await aToken(tenant.token);
    const foreign = await aPlayer(api, (await aTenant(api)).key);
    const asked = (body: object) => matchmake(api, "joinOrCreate/events", { token, body });
    for (const body of [
      { eventType: "won" },
      { eventType: [""] },
      { eventType: Array.from({ length: 21 }, (_, i) => `t${i}`) },
      { status: "PENDING" },
      { playerId: 5 },
      { playerId: "\0" },
    ])
      assert.equal((await asked(body)).status, 400, JSON.stringify(body));
    assert.equal((await asked({ playerId: foreign.playerId })).status, 404);
  });
});
