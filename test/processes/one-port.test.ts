import assert from "node:assert/strict";
import { Client } from "@colyseus/sdk";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { startWebCluster, type Web, type WebCluster } from "../support/processes/two-servers.ts";
import {
  aPlayer,
  grantXp,
  heardUpTo,
  join,
  type Listener,
  matchmake,
  range,
  seqs,
} from "../support/rooms/sdk.ts";

const JOINS = 60;
const PLAYERS = 30;
const CROWD = 30;

describe("three web processes behind one port, without stickiness", () => {
  let cluster: WebCluster;

  before(async () => {
    cluster = await startWebCluster(3);
  });
  after(() => cluster?.stop());

  /** Open rooms of a kind by process, once they are as expected: processes count them now and then. */
  const roomsOf = (
    kind: string,
    webs: readonly Web[],
    isExpected: (counts: number[]) => boolean,
  ): Promise<number[]> =>
    eventually(async () => {
      const counts = await Promise.all(
        webs.map((web) => cluster.metric(web, `laurel_rooms{room="${kind}"}`)),
      );
      return isExpected(counts) ? counts : undefined;
    });

  it("take every join of players and boards, spread the rooms, and pipe what they do not hold", async () => {
    const { api, tenant, webs } = cluster;
    const board = { key: "top", name: "Top", metric: { source: "XP" } };
    must(await api.post("/api/v1/leaderboards", board, { key: tenant.key }), 201);
    const players = await Promise.all(range(1, PLAYERS).map(() => aPlayer(api, tenant.key)));
    // The board is built when it is first looked at.
    const watch = () => join(api, players[0]!.token, "leaderboard", { leaderboardKey: "top" });
    const { room: first } = await eventually(watch);
    const joins = await Promise.all(
      range(0, JOINS - 1).map((i) => {
        const { token } = players[i % PLAYERS]!;
        return i < PLAYERS
          ? join(api, token, "player")
          : join(api, token, "leaderboard", { leaderboardKey: "top" });
      }),
    );
    assert.equal(joins.length, JOINS);
    const spread = await roomsOf("player", webs, (counts) => counts.reduce((sum, n) => sum + n) === PLAYERS);
    assert.ok(Math.min(...spread) > 0, `rooms by process: ${spread.join()}`);
    await eventually(async () => {
      const piped = await Promise.all(webs.map((web) => cluster.metric(web, "laurel_ws_piped")));
      return piped.some((n) => n > 0);
    });

    const listeners: Listener[] = joins.slice(0, PLAYERS);
    await Promise.all(players.map(({ playerId }) => grantXp(api, tenant.key, playerId)));
    await Promise.all(listeners.map((listener) => heardUpTo(listener, 2)));
    for (const listener of listeners) assert.deepEqual(seqs(listener), [2]);
    for (const { room } of [...joins, { room: first }]) await room.leave();
    await eventually(async () => {
      const left = await Promise.all(webs.map((web) => cluster.metric(web, "laurel_ws_piped")));
      return left.every((n) => n === 0);
    });
  });

  it("give a lost session back at another process, and to nobody else", async () => {
    const { tenant } = cluster;
    const [here, there] = cluster.webs as [Web, Web];
    const [player, other] = [await aPlayer(here.client, tenant.key), await aPlayer(here.client, tenant.key)];
    const me = await join(here.client, player.token, "player");
    await eventually(() => me.named("session.ready").length === 1);
    me.room.reconnection.enabled = false;
    me.room.connection.close();
    await eventually(() => me.left !== undefined);
    const [roomId, reconnectionToken] = me.room.reconnectionToken.split(":");
    const stolen = { token: other.token, body: { reconnectionToken } };
    assert.equal((await matchmake(there.client, `reconnect/${roomId}`, stolen)).status, 410);
    const client = new Client(there.client.url);
    client.auth.token = player.token;
    const room = await client.reconnect(me.room.reconnectionToken);
    room.onMessage("*", () => undefined);
    assert.equal(room.sessionId, me.room.sessionId);
    await room.leave();
  });

  it("have one room each of a channel for the crowds that come to them", async () => {
    const { tenant } = cluster;
    const [one, other] = cluster.webs as [Web, Web];
    const players = await Promise.all(range(1, CROWD).map(() => aPlayer(cluster.api, tenant.key)));
    const come = (web: Web) =>
      Promise.all(players.map(({ token }) => join(web.client, token, "chat", { channelId: "global" })));
    const here = await come(one);
    // Who comes while the room is made may still go elsewhere.
    const there = [...(await come(other)), ...(await come(other))];
    await roomsOf("chat", [one, other], (counts) => counts.every((n) => n === 1));
    const [first] = here;
    const elsewhere = there.filter(({ room }) => room.roomId === first!.room.roomId);
    assert.ok(elsewhere.length < CROWD, `${elsewhere.length} of ${there.length} elsewhere`);
    await first!.room.request("chat.send", { content: "hello" });
    await eventually(() => [...here, ...there].every((who) => who.named("chat.message").length === 1));
    for (const { room } of [...here, ...there]) await room.leave();
  });
});
