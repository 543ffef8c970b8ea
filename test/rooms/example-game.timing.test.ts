import assert from "node:assert/strict";
import { matchMaker } from "@colyseus/core";
import type { WebSocket } from "ws";
import { lobbyRoomId } from "../../src/rooms/room-ids.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { aLobby, type InLobby, memberIn, readByApi } from "../support/lobbies/room.ts";
import { aPlayer } from "../support/rooms/sdk.ts";

type View = {
  lobby: { id: string; status: string; members: Record<string, unknown> } | null;
  messages: unknown[];
  ended: string | null;
};
type Game = { view: View; enter(entry: object): Promise<void>; leave(): Promise<void> };
type CreateGame = (url: string, fetchToken: () => Promise<string>, show: () => void) => Game;

const example = new URL("../../docs/examples/game.mjs", import.meta.url).href;
const { createGame } = (await import(example)) as { createGame: CreateGame };

describe("the example client", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  type Guest = { game: Game; playerId: string; tokens: () => number; refuseTokens(): void };

  /** A player with the example client, in the lobby of `host`. */
  const aGuestOf = async (host: InLobby): Promise<Guest> => {
    const { playerId, token } = await aPlayer(api, tenant.key);
    let [tokens, isRefused] = [0, false];
    const fetchToken = async (): Promise<string> => {
      tokens++;
      if (isRefused) throw new Error("no token");
      return token;
    };
    const game = createGame(api.url, fetchToken, () => undefined);
    await game.enter({ code: host.room.state.code });
    assert.ok(game.view.lobby!.members[playerId]);
    return { game, playerId, tokens: () => tokens, refuseTokens: () => (isRefused = true) };
  };

  const change = (host: InLobby, action: string, body: object = {}) =>
    api.post(`/api/v1/lobbies/${host.lobbyId}/${action}`, body, { key: tenant.key });

  /** Ends all connections to a lobby's room as a network does, before a client may reconnect by itself. */
  const cutAll = (host: InLobby): void => {
    const room = matchMaker.getLocalRoomById(lobbyRoomId(tenant.projectId, host.lobbyId));
    for (const client of room.clients) (client.ref as WebSocket).terminate();
  };

  /** Takes the pauses before the client's next tries, which then come at once, until `release`. */
  const takePauses = (): { pausesMs: number[]; release: () => void } => {
    const pausesMs: number[] = [];
    const { setTimeout: real } = globalThis;
    const taking = (callback: () => void, ms?: number, ...rest: []) => {
      const isPause = callback.name === "again";
      if (isPause) pausesMs.push(ms!);
      return real(callback, isPause ? 0 : ms, ...rest);
    };
    globalThis.setTimeout = Object.assign(taking, real);
    return { pausesMs, release: () => void (globalThis.setTimeout = real) };
  };

  for (const ban of [false, true])
    it(`stays out when its player is ${ban ? "banned" : "kicked"}, and shows nothing but why`, async () => {
      const host = await aLobby(api, tenant);
      const { game, playerId, tokens } = await aGuestOf(host);
      const before = tokens();
      const { pausesMs, release } = takePauses();
      try {
        must(await change(host, "kick", { playerId, ban }), 200);
        await eventuallyHolds(() => assert.deepEqual([game.view.lobby, game.view.ended], [null, "KICKED"]));
        assert.deepEqual(game.view.messages, []);
        // A client that tried again would have asked for a token when the next has its answer.
        const other = await aGuestOf(host);
        assert.deepEqual([tokens(), pausesMs], [before, []]);
        assert.equal(memberIn(host, { playerId }), undefined);
        await other.game.leave();
        assert.deepEqual([other.game.view.lobby, other.game.view.ended], [null, null]);
      } finally {
        release();
      }
      await host.room.leave();
    });

  it("ends a lobby that was closed while it was away, and may enter the next one", async () => {
    const [first, second] = [await aLobby(api, tenant), await aLobby(api, tenant)];
    const { game } = await aGuestOf(first);
    must(await change(first, "close"), 200);
    cutAll(first);
    await eventuallyHolds(
      () => {
        assert.equal(game.view.lobby, null);
        assert.match(game.view.ended!, /lobby/);
      },
      { timeoutMs: 10_000 },
    );
    await game.enter({ code: second.room.state.code });
    assert.deepEqual([game.view.lobby!.id, game.view.ended], [second.lobbyId, null]);
    await game.leave();
    await second.room.leave();
  });

  it("comes back after a short outage, and waits longer each time that it cannot", async () => {
    const host = await aLobby(api, tenant);
    const { game, playerId, tokens, refuseTokens } = await aGuestOf(host);
    const before = tokens();
    const { pausesMs, release } = takePauses();
    try {
      cutAll(host);
      await eventuallyHolds(() => assert.ok(tokens() > before));
      await eventuallyHolds(async () => {
        const { members } = await readByApi(api, tenant, host.lobbyId);
        assert.equal(members.find((one) => one.playerId === playerId)?.status, "JOINED");
      });
      assert.equal(game.view.ended, null);
      pausesMs.length = 0;
      refuseTokens();
      cutAll(host);
      await eventuallyHolds(() => assert.ok(pausesMs.length >= 12));
      // Half to one and a half times a pause that doubles up to half a minute.
      assert.ok(pausesMs[0]! < 4_000 && Math.min(...pausesMs.slice(8)) >= 15_000, pausesMs.join());
      assert.ok(Math.max(...pausesMs) <= 45_000, pausesMs.join());
    } finally {
      release();
    }
    await game.leave();
    assert.equal(game.view.lobby, null);
  });
});
