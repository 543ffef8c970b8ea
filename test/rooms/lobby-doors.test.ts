import assert from "node:assert/strict";
import { matchMaker } from "@colyseus/core";
import fc from "fast-check";
import { type LobbyView, type Occurrence } from "../../src/domain/kernel/events/social-views.ts";
import { lobbyTopic } from "../../src/domain/kernel/topics.ts";
import { connectMember, disconnectMember, LOBBY_COMMANDS } from "../../src/domain/social/lobbies/commands.ts";
import { settleOrphans } from "../../src/rooms/lobby-orphans.ts";
import { LobbyMirror, LobbyPresence } from "../../src/rooms/lobby-mirror.ts";
import { Rate } from "../../src/rooms/pace.ts";
import { lobbyRoomId } from "../../src/rooms/room-ids.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import {
  aGuest,
  aLobby,
  enter,
  type InLobby,
  memberIn,
  readByApi,
  rejection,
} from "../support/lobbies/room.ts";
import { aPlayer, join, matchmake, type Player } from "../support/rooms/sdk.ts";

/** What no request may carry, whatever it asks for, of what the SDK can encode at all. */
const HOSTILE: readonly unknown[] = [
  5,
  "x",
  [1],
  { data: "\0" },
  { constructor: 1 },
  { data: JSON.parse(`${"[".repeat(60)}${"]".repeat(60)}`) },
  { data: Number.NaN },
  { data: 2n ** 60n },
];

describe("the doors of a lobby", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const ask = async (token: string, body: object): Promise<[number, string | undefined]> => {
    const answer = await matchmake(api, "joinOrCreate/lobby", { token, body });
    return [answer.status, answer.body.error?.reason];
  };
  const consoleToken = async (): Promise<string> => {
    const { projectId, token } = tenant;
    return must(await api.post("/api/v1/auth/ws-token", { projectId }, { token }), 200).token;
  };

  it("are shut for another project, bad options and who is not let in", async () => {
    const host = await aLobby(api, tenant);
    const [player, stranger] = [await aPlayer(api, tenant.key), await aTenant(api)];
    const outsider = await aPlayer(api, stranger.key);
    const { lobbyId } = host;
    for (const body of [
      { lobbyId },
      { lobbyId, projectId: tenant.projectId },
      { code: host.room.state.code },
    ])
      assert.equal((await ask(outsider.token, body))[0], 404);
    const bad = [
      {},
      { lobbyId: "x" },
      { lobbyId, create: { mode: "duel", maxPlayers: 2 } },
      { create: { mode: "duel" } },
      { create: { mode: "duel", maxPlayers: 2, passcod: "1234" } },
      { create: 5 },
      { lobbyId, data: "\0" },
    ];
    for (const body of bad) assert.equal((await ask(player.token, body))[0], 400, JSON.stringify(body));
    assert.deepEqual(await ask(player.token, { lobbyId, asSpectator: true }), [409, "LOBBY_NOT_OPEN"]);
    await host.room.leave();
  });

  it("show private data to members only, and let the console watch and do nothing", async () => {
    const host = await aLobby(api, tenant, { privateData: { secret: "swordfish" } });
    assert.equal(JSON.parse(host.room.state.privateData).secret, "swordfish");
    const watcher = await join(api, await consoleToken(), "lobby", { lobbyId: host.lobbyId });
    await eventually(() => watcher.room.state.id === host.lobbyId);
    const { version } = host.room.state;
    await host.room.request("lobby.update", { version, privateData: { secret: "marlin" } });
    await eventually(() => JSON.parse(host.room.state.privateData).secret === "marlin");
    const guest = await aGuest(api, tenant, host);
    await eventually(() => JSON.parse(guest.room.state.privateData).secret === "marlin");
    await eventually(() => memberIn(watcher, guest));
    assert.doesNotMatch(JSON.stringify([watcher.room.state, watcher.heard]), /swordfish|marlin/);
    const { reason } = await rejection(watcher.room.request("lobby.ready", { ready: true }));
    assert.equal(reason, "PLAYER_TOKEN_REQUIRED");
    for (const { room } of [watcher, guest, host]) await room.leave();
  });

  it("refuse hostile payloads of every request, and nobody is the worse for it", async () => {
    const host = await aLobby(api, tenant);
    const names = [...Object.keys(LOBBY_COMMANDS), "lobby.signal"];
    assert.ok(names.length > 5);
    for (const name of names) {
      const guest = await aGuest(api, tenant, host);
      for (const payload of HOSTILE) {
        const { code } = await rejection(guest.room.request(name, payload));
        assert.equal(code, "VALIDATION_ERROR", `${name} ${String(payload)}`);
      }
      await guest.room.leave();
      await eventually(() => !memberIn(host, guest));
    }
    assert.equal((await host.room.request("lobby.ready", { ready: true })).version, host.room.state.version);
    await host.room.leave();
  });

  it("pass signals to the members they are for, and nothing too large", async () => {
    const host = await aLobby(api, tenant);
    const [one, two] = [await aGuest(api, tenant, host), await aGuest(api, tenant, host)];
    const signals = (who: InLobby) => who.named("lobby.signal").map(({ data }) => [data.from, data.payload]);
    await one.room.request("lobby.signal", { payload: { offer: 1 } });
    await host.room.request("lobby.signal", { to: [two.playerId], payload: "hush" });
    await eventually(() => signals(two).length === 2 && signals(host).length === 1);
    assert.deepEqual(signals(two), [
      [one.playerId, { offer: 1 }],
      [host.playerId, "hush"],
    ]);
    assert.deepEqual(signals(one), []);
    const big = { payload: "x".repeat(2_048) };
    assert.equal((await rejection(one.room.request("lobby.signal", big))).code, "VALIDATION_ERROR");
    for (const { room } of [two, one, host]) await room.leave();
  });

  it("let a member send 20 signals in a second, and as many in the next", () => {
    const rate = new Rate(20, 1_000);
    const [ann, bob] = [{}, {}];
    for (const second of [0, 1]) {
      for (let i = 0; i < 20; i++) assert.ok(rate.take(ann, second * 1_000 + i));
      assert.ok(!rate.take(ann, second * 1_000 + 999));
    }
    assert.ok(rate.take(bob, 1_999));
  });

  it("are shut to one who is no member any more, whatever the room shows", async () => {
    const host = await aLobby(api, tenant);
    const { lobbyId, room } = host;
    const player = await aPlayer(api, tenant.key);
    const listener = await join(api, player.token, "lobby", { lobbyId });
    // Nobody tells the room.
    await listener.room.leave(false);
    await eventually(() => room.state.members.get(player.playerId)?.status === "DISCONNECTED");
    await api.sql`update lobby_members set status = 'LEFT' where player_id = ${player.playerId}`;
    await assert.rejects(join(api, player.token, "lobby", { lobbyId }), /not in the lobby/);
  });

  it("keep what throws in one room from all others, and from the room itself", async () => {
    const [host, other] = [await aLobby(api, tenant), await aLobby(api, tenant)];
    const { projectId } = tenant;
    const room = matchMaker.getLocalRoomById(lobbyRoomId(projectId, host.lobbyId));
    const boom = () => {
      throw new Error("boom");
    };
    room.onMessage("boom", boom);
    room.clock.setTimeout(boom, 1);
    (room as unknown as { later(delayMs: number, run: () => void): void }).later(0, boom);
    for (const notice of [undefined, { version: 99 }, "x"])
      api.app.topics.publish(lobbyTopic(projectId, host.lobbyId), notice);
    host.room.send("boom", {});
    for (const { room: client } of [host, other]) {
      const { version } = await client.request("lobby.ready", { ready: true });
      await eventually(() => client.state.version === version);
    }
    for (const { room: client } of [host, other]) await client.leave();
  });
});

const lobbyAt = (version: number) => ({ version }) as LobbyView;

const occurrencesOf = (version: number): Occurrence[] => [
  { name: "lobby.countdown", data: { version } },
  { name: "lobby.started", data: { version } },
];

/** How word of one version comes to a room. */
const wordArbitrary = fc.record({
  own: fc.boolean(),
  relayed: fc.nat({ max: 2 }),
  delay: fc.nat({ max: 6 }),
});

const FAILED_READS_MAX = 3;

/** More work than any test here has: what goes on beyond it would go on for ever. */
const STEPS_MAX = 1_000;

/** A mirror over a lobby that is changed behind its back, and what it shows and tells. */
const watch = (failedReads: number) => {
  let committed = 1;
  let failures = failedReads;
  const seen: string[] = [];
  const due: (() => unknown)[] = [];
  const mirror: LobbyMirror = new LobbyMirror({
    read: async () => {
      if (failures-- > 0) throw new Error("the database is away");
      return lobbyAt(committed);
    },
    show: ({ version }) => void seen.push(`show ${version}`),
    onOccurrence: ({ name, data }) => {
      assert.ok(mirror.version >= (data["version"] as number), "told before it is shown");
      seen.push(`${name} ${Number(data["version"])}`);
    },
    later: (_delayMs, run) => void due.push(run),
    onError: () => undefined,
  });
  const settle = async (): Promise<void> => {
    for (let steps = 0; due.length > 0; steps++) {
      assert.ok(steps < STEPS_MAX, "it comes to rest");
      await due.shift()!();
    }
  };
  const commit = (): number => ++committed;
  return { mirror, seen, settle, commit };
};

describe("the mirror of a lobby", () => {
  it("shows no older version, ends at the newest and tells what it heard once, in any order", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(wordArbitrary, { maxLength: 20 }),
        fc.nat({ max: FAILED_READS_MAX }),
        async (words, failedReads) => {
          const { mirror, seen, settle, commit } = watch(failedReads);
          mirror.start(lobbyAt(1));
          const relayed: { at: number; version: number }[] = [];
          const heard = new Set<number>();
          for (const [at, { own, relayed: times, delay }] of words.entries()) {
            const version = commit();
            if (own) mirror.apply({ lobby: lobbyAt(version), occurrences: occurrencesOf(version) });
            if (own || times > 0) heard.add(version);
            for (let i = 0; i < times; i++) relayed.push({ at: at + delay * i, version });
            for (const notice of relayed.filter((late) => late.at === at))
              mirror.receive({ version: notice.version, occurrences: occurrencesOf(notice.version) });
            if (at % 3 === 0) await settle();
          }
          for (const { version } of relayed.toReversed())
            mirror.receive({ version, occurrences: occurrencesOf(version) });
          mirror.expect(words.length + 1);
          await settle();

          const shown = seen.filter((line) => line.startsWith("show")).map((line) => Number(line.slice(5)));
          assert.equal(shown.at(-1), words.length + 1);
          assert.deepEqual(
            shown,
            [...new Set(shown)].toSorted((a, b) => a - b),
          );
          const told = seen.filter((line) => !line.startsWith("show"));
          const expected = [...heard].flatMap((v) => occurrencesOf(v).map(({ name }) => `${name} ${v}`));
          assert.deepEqual(told.toSorted(), expected.toSorted());
        },
      ),
    ));

  it("does not read for ever for a version that nobody has committed", async () => {
    const { mirror, seen, settle, commit } = watch(0);
    mirror.start(lobbyAt(1));
    mirror.expect(3);
    await settle();
    mirror.expect(commit());
    await settle();
    assert.deepEqual(seen, ["show 1", "show 2"]);
  });

  it("tells nothing of what was before it", async () => {
    const { mirror, seen, settle } = watch(0);
    mirror.receive({ version: 1, occurrences: occurrencesOf(1) });
    mirror.start(lobbyAt(1));
    mirror.receive({ version: 1, occurrences: occurrencesOf(1) });
    await settle();
    assert.deepEqual(seen, ["show 1"]);
  });
});

describe("who is in a lobby", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const refOf = (lobbyId: string) => ({ projectId: tenant.projectId, lobbyId });

  /** A lobby whose members were there by socket when their process ended. */
  const aLobbyOfBefore = async (): Promise<{ lobbyId: string; players: Player[] }> => {
    const { key } = tenant;
    const players = [await aPlayer(api, key), await aPlayer(api, key)];
    const [hostPlayerId] = players.map(({ playerId }) => playerId);
    const body = { mode: "duel", maxPlayers: 4, hostPlayerId };
    const { id: lobbyId } = must(await api.post("/api/v1/lobbies", body, { key }), 201);
    const { playerId } = players[1]!;
    must(await api.post(`/api/v1/lobbies/${lobbyId}/join`, { playerId }, { key }), 200);
    for (const player of players)
      await api.app.transact((work) => connectMember(work, refOf(lobbyId), player.playerId));
    return { lobbyId, players };
  };

  const statuses = async (lobbyId: string): Promise<string[]> =>
    (await readByApi(api, tenant, lobbyId)).members.map(({ status }) => status);

  it("keeps, in a game, the seat of who leaves, ends their sockets and lets them come back", async () => {
    const host = await aLobby(api, tenant, { settings: { readyPolicy: "HOST", countdownSeconds: 0 } });
    const guest = await aGuest(api, tenant, host);
    const again = await enter(api, guest, { lobbyId: host.lobbyId });
    await host.room.request("lobby.start", {});
    await guest.room.request("lobby.leave", {});
    await eventually(() => guest.left?.code === 4000 && again.left?.code === 4000);
    await eventually(() => memberIn(host, guest)?.status === "DISCONNECTED");
    const back = await enter(api, guest, { lobbyId: host.lobbyId });
    await eventually(() => memberIn(host, guest)?.status === "JOINED");
    for (const { room } of [back, host]) await room.leave();
  });

  it("is there whose socket is there, whatever another room of the lobby has seen", async () => {
    const host = await aLobby(api, tenant);
    const guest = await aGuest(api, tenant, host);
    const { version } = host.room.state;
    await api.app.transact((work) => disconnectMember(work, refOf(host.lobbyId), guest.playerId));
    await eventually(
      () => memberIn(host, guest)?.status === "JOINED" && host.room.state.version >= version + 2,
    );
    for (const { room } of [guest, host]) await room.leave();
  });

  it("is away who does not come back to the room after a restart", async () => {
    const { lobbyId, players } = await aLobbyOfBefore();
    const [host, guest] = players as [Player, Player];
    const first = await enter(api, host, { lobbyId });
    await eventually(() => memberIn(first, guest)?.status === "DISCONNECTED");
    assert.equal(memberIn(first, host)?.status, "JOINED");
    await first.room.leave();
  });

  it("is away, too, when nobody comes back, and not before the lobby was quiet for a while", async () => {
    const [{ lobbyId }, present] = [await aLobbyOfBefore(), await aLobby(api, tenant)];
    await settleOrphans(api.app);
    assert.deepEqual(await statuses(lobbyId), ["JOINED", "JOINED"]);
    await api.sql`update lobbies set updated_at = updated_at - interval '1 minute'
      where project_id = ${tenant.projectId}`;
    await settleOrphans(api.app);
    assert.deepEqual(await statuses(lobbyId), ["DISCONNECTED", "DISCONNECTED"]);
    assert.deepEqual(await statuses(present.lobbyId), ["JOINED"]);
    await present.room.leave();
  });

  it("is there in a room of this process, listed or not", async () => {
    const host = await aLobby(api, tenant);
    const { version } = host.room.state;
    await api.sql`update lobbies set updated_at = updated_at - interval '1 minute'
      where project_id = ${tenant.projectId} and id = ${host.lobbyId}`;
    assert.ok(await matchMaker.driver.remove(lobbyRoomId(tenant.projectId, host.lobbyId)));
    await settleOrphans(api.app);
    assert.equal((await readByApi(api, tenant, host.lobbyId)).version, version);
    await host.room.leave();
  });

  it("keeps no socket when the last player was taken out and the lobby has ended", async () => {
    const host = await aLobby(api, tenant);
    const path = `/api/v1/lobbies/${host.lobbyId}/leave`;
    must(await api.post(path, { playerId: host.playerId }, { key: tenant.key }), 200);
    await eventually(() => host.left);
    assert.equal(host.left?.code, 4000);
    assert.equal(host.named("session.closed")[0]?.data.reason, "LEFT");
  });

  it("watches, as a spectator, without a seat", async () => {
    const host = await aLobby(api, tenant, { maxPlayers: 2, settings: { allowSpectators: true } });
    const guest = await aGuest(api, tenant, host);
    const spectator = await aGuest(api, tenant, host, { asSpectator: true });
    assert.equal(host.room.state.memberCount, 2);
    await eventually(() => memberIn(guest, spectator));
    const again = await enter(api, spectator, { lobbyId: host.lobbyId });
    for (const { room } of [again, spectator, guest, host]) await room.leave();
  });

  it("is missed again when the database could not be told, unless they have come back", async () => {
    let outages = 2;
    let commits = 0;
    const presence = new LobbyPresence({
      ref: () => refOf("lobby"),
      commit: async () => {
        if (outages-- > 0) throw new Error("the database is away");
        commits++;
      },
      refresh: async () => undefined,
      onError: () => undefined,
    });
    await presence.reportAbsence("gone", "DISCONNECT");
    await presence.reportAbsence("back", "DISCONNECT");
    await presence.arrive("session", "back");
    await presence.retry();
    await presence.retry();
    // One that "back" is here and one that "gone" is not.
    assert.equal(commits, 2);
    assert.equal(presence.depart("session"), "back");
  });
});
