import assert from "node:assert/strict";
import { sql } from "kysely";
import { countingStatements, type StatementCounts } from "../../src/domain/kernel/statement-counts.ts";
import { aTenant, shareApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { aPlayer, heardUpTo, join, type Listener } from "../support/rooms/sdk.ts";

/** The least of so many joins counts: what rooms and workers look at by themselves is no part of a join. */
const JOINS = 6;

describe("the statements of a join", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let api: TestApp;
  let tenant: Tenant;
  /** Of everything that the server does. */
  const counts: StatementCounts = { statements: 0, roundTrips: 0 };

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    api = await countingStatements(counts, () => shareApp({ ...services.env, ROLES: "web" }));
    tenant = await aTenant(api);
    const { key } = tenant;
    const body = { kind: "PROJECT", key: "all", name: "All" };
    must(await api.post("/api/v1/chat/channels", body, { key }), 201);
    must(
      await api.post("/api/v1/leaderboards", { key: "xp", name: "XP", metric: { source: "XP" } }, { key }),
      201,
    );
  });
  after(async () => {
    await api?.stop();
    await services?.remove();
    await directory?.remove();
  });

  /** The least statements and round trips of joins by different players, each shown what they came for. */
  const least = async (
    name: string,
    options: object,
    isShown: (listener: Listener) => boolean,
  ): Promise<StatementCounts> => {
    const found: StatementCounts[] = [];
    for (let n = 0; n < JOINS; n++) {
      const { token } = await aPlayer(api, tenant.key);
      const before = { ...counts };
      const listener = await join(api, token, name, options);
      await eventually(() => isShown(listener));
      const { statements, roundTrips } = counts;
      found.push({ statements: statements - before.statements, roundTrips: roundTrips - before.roundTrips });
    }
    return {
      statements: Math.min(...found.map(({ statements }) => statements)),
      roundTrips: Math.min(...found.map(({ roundTrips }) => roundTrips)),
    };
  };
  const isOnce = { statements: 1, roundTrips: 1 };

  it("is one in a player's own room, in one round trip", async () => {
    assert.deepEqual(await least("player", {}, (one) => one.named("state.snapshot").length === 1), isOnce);
  });

  it("is one in a channel, by key and by id", async () => {
    const isShown = (one: Listener): boolean => one.named("chat.history").length === 1;
    assert.deepEqual(await least("chat", { channelId: "all" }, isShown), isOnce);
    assert.deepEqual(await least("chat", { channelId: "global" }, isShown), isOnce);
  });

  it("is one in the room of a board, and in a list of lobbies", async () => {
    assert.deepEqual(await least("leaderboard", { leaderboardKey: "xp" }, () => true), isOnce);
    assert.deepEqual(await least("lobbies", {}, () => true), isOnce);
  });

  it("is none for a client that comes back to its player's room and has missed nothing", async () => {
    const { token } = await aPlayer(api, tenant.key);
    const me = await join(api, token, "player");
    await eventually(() => me.named("state.snapshot").length === 1);
    const { seq } = me.named("state.snapshot")[0]!.data;
    const found: number[] = [];
    for (let n = 0; n < JOINS; n++) {
      const before = counts.statements;
      const again = await join(api, token, "player", { lastSeq: seq });
      await eventually(() => again.named("session.ready").length === 1);
      assert.equal(again.named("session.ready")[0]!.data.resumed, true);
      found.push(counts.statements - before);
      await again.room.leave();
    }
    assert.equal(Math.min(...found), 0);
    const { playerId } = me.room.state;
    must(await api.post(`/api/v1/players/${playerId}/xp`, { amount: 1 }, { key: tenant.key }), 201);
    const last = await join(api, token, "player", { lastSeq: seq });
    await heardUpTo(last, seq + 1);
  });

  describe("of a lobby", () => {
    let host: Awaited<ReturnType<typeof aPlayer>>;
    let lobbyId: string;
    let room: Listener;
    before(async () => {
      host = await aPlayer(api, tenant.key);
      room = await join(api, host.token, "lobby", { create: { mode: "duel", maxPlayers: 16 } });
      await eventually(() => isShown(room));
      lobbyId = room.room.state.id;
    });

    const isIn = (playerId: string): boolean => room.room.state.members.has(playerId) === true;
    const isShown = ({ room: { state } }: Listener): boolean => state.members?.has(host.playerId) === true;
    /** Of what a join does for a player; `prepare` is no part of it. */
    const leastOf = async (
      prepare: () => Promise<{ token: string }>,
      options: object,
    ): Promise<StatementCounts> => {
      const found: StatementCounts[] = [];
      for (let n = 0; n < JOINS; n++) {
        const { token } = await prepare();
        const before = { ...counts };
        const listener = await join(api, token, "lobby", options);
        await eventually(() => isShown(listener));
        const { statements, roundTrips } = counts;
        found.push({
          statements: statements - before.statements,
          roundTrips: roundTrips - before.roundTrips,
        });
        await listener.room.leave();
      }
      return found.toSorted((a, b) => a.statements - b.statements || a.roundTrips - b.roundTrips)[0]!;
    };

    it("are none for a further socket of a member, where the process has the room", async () => {
      const isNone = { statements: 0, roundTrips: 0 };
      assert.deepEqual(await leastOf(async () => host, { lobbyId }), isNone);
    });

    it("are refused to one who is no member any more, whatever the room shows", async () => {
      const player = await aPlayer(api, tenant.key);
      const listener = await join(api, player.token, "lobby", { lobbyId });
      await eventually(() => isShown(listener));
      await listener.room.leave();
      await eventually(() => !isIn(player.playerId));
      const again = await join(api, player.token, "lobby", { lobbyId });
      await eventually(() => isIn(player.playerId));
      // Nobody tells the room.
      await again.room.leave(false);
      const isAway = () => room.room.state.members.get(player.playerId)?.status === "DISCONNECTED";
      await eventually(() => isAway());
      await api.app.transact(({ db }) =>
        sql`update lobby_members set status = 'LEFT' where player_id = ${player.playerId}`.execute(db),
      );
      await assert.rejects(join(api, player.token, "lobby", { lobbyId }), /not in the lobby/);
    });
  });
});
