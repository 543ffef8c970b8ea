import assert from "node:assert/strict";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { aPlayer, join, type Listener, matchmake } from "../support/rooms/sdk.ts";

type Row = { id: string; name: string; memberCount: number; metadata: string; createdAt: string };

const rowsOf = ({ room }: Listener): Row[] =>
  [...((room.state.lobbies?.values() ?? []) as Iterable<Row>)].toSorted((a, b) =>
    a.createdAt < b.createdAt ? 1 : -1,
  );

const namesOf = (listener: Listener): string[] =>
  rowsOf(listener)
    .map(({ name }) => name)
    .toSorted();

describe("room lobbies", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const aLobby = async (name: string, body: object = {}, key = tenant.key): Promise<string> =>
    must(await api.post("/api/v1/lobbies", { name, mode: "duel", maxPlayers: 4, ...body }, { key }), 201).id;

  const watch = async (options: object = {}): Promise<Listener> =>
    join(api, (await aPlayer(api, tenant.key)).token, "lobbies", options);

  it("shows the open public lobbies of the project, by mode and metadata, as they come and go", async () => {
    const stranger = await aTenant(api);
    await aLobby("elsewhere", {}, stranger.key);
    const eu = await aLobby("eu", { metadata: { region: "eu", level: 3 } });
    const [all, arena, inEurope] = [
      await watch(),
      await watch({ mode: "arena" }),
      await watch({ mode: "duel", metadata: { region: "eu" } }),
    ];
    const same = await watch({ mode: "duel", metadata: { region: "eu" } });
    assert.equal(same.room.roomId, inEurope.room.roomId);
    assert.notEqual(all.room.roomId, inEurope.room.roomId);
    await aLobby("us", { metadata: { region: "us" } });
    await aLobby("pit", { mode: "arena" });
    await aLobby("hidden", { visibility: "PRIVATE" });
    await eventuallyHolds(() => {
      assert.deepEqual(namesOf(all), ["eu", "pit", "us"]);
      assert.deepEqual(namesOf(arena), ["pit"]);
      assert.deepEqual(namesOf(inEurope), ["eu"]);
    });
    assert.equal(rowsOf(all)[0]?.name, "pit");
    assert.deepEqual(JSON.parse(rowsOf(inEurope)[0]!.metadata), { region: "eu", level: 3 });
    const { playerId } = await aPlayer(api, tenant.key);
    must(await api.post(`/api/v1/lobbies/${eu}/join`, { playerId }, { key: tenant.key }), 200);
    await eventually(() => rowsOf(inEurope)[0]?.memberCount === 1);
    must(await api.post(`/api/v1/lobbies/${eu}/close`, {}, { key: tenant.key }), 200);
    await eventuallyHolds(() => {
      assert.deepEqual(namesOf(all), ["pit", "us"]);
      assert.deepEqual(namesOf(inEurope), []);
    });
    for (const { room } of [all, arena, inEurope, same]) await room.leave();
  });

  it("shows the newest hundred", async () => {
    const owner = await aTenant(api);
    for (let i = 0; i < 102; i++) await aLobby(`lobby-${i}`, {}, owner.key);
    const { token } = await aPlayer(api, owner.key);
    const watcher = await join(api, token, "lobbies");
    await eventually(() => rowsOf(watcher).length === 100);
    assert.ok(!namesOf(watcher).some((name) => ["lobby-0", "lobby-1"].includes(name)));
    await watcher.room.leave();
  });

  it("refuses bad options", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const bad = [
      { mode: 5 },
      { metadata: "eu" },
      { metadata: { a: "\0" } },
      { metadata: { a: "x".repeat(2_000) } },
      { mode: "x".repeat(101) },
    ];
    for (const body of bad)
      assert.equal((await matchmake(api, "joinOrCreate/lobbies", { token, body })).status, 400);
  });
});
