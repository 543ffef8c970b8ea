import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { type Database, openPostgres } from "../../src/platform/database.ts";
import {
  appendViolations,
  type BoardHistory,
  History,
  leaderboardViolations,
  lobbyViolations,
} from "../support/checkers/checkers.ts";
import { aPlayer, range } from "../support/rooms/sdk.ts";
import { answered } from "../support/http/tiny-http.ts";
import {
  BOARD_KEYS,
  type BoardKey,
  BOARDS,
  ChatClient,
  compete,
  type Contest,
  type Hall,
  LobbyClient,
  makeBoards,
  openHall,
  placesShown,
  rankBySql,
  readChannel,
  readLines,
  readPages,
  seenOf,
  shownBy,
  type Talk,
  watchBoard,
} from "../support/checkers/clients.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { assertLobbies } from "../support/lobbies/room.ts";
import { type Random, seeded } from "../support/seed.ts";
import type { Staying } from "../support/rooms/staying.ts";
import { startWebCluster, type WebCluster } from "../support/processes/two-servers.ts";

/** A process that stands still for so long is not yet taken for dead. */
const PAUSE_MS = 3_000;
const CUT_EVERY_MS = 250;
/** Of connections, each time. */
const CUT_SHARE = 0.03;
const CALM_MS = [200, 800] as const;

/** Kills a web process and starts it anew, and holds one up, in an order that chance gives. */
const troubles = (cluster: WebCluster, random: Random): (() => Promise<unknown>)[] =>
  random.shuffle([
    async () => {
      await cluster.kill(random.pick(cluster.webs));
      await delay(random.between(...CALM_MS));
      return cluster.add();
    },
    async () => {
      const { child } = random.pick(cluster.webs);
      child.kill("SIGSTOP");
      await delay(PAUSE_MS);
      child.kill("SIGCONT");
    },
  ]);

/** Does what clusters suffer, one after another, while connections are cut; resolves when that is over. */
const makeTrouble = async (cluster: WebCluster, random: Random): Promise<void> => {
  const cutting = random.fork("cuts");
  const cuts = setInterval(() => {
    for (const socket of cluster.balancer.open()) if (cutting.chance(CUT_SHARE)) socket.destroy();
  }, CUT_EVERY_MS);
  try {
    for (const trouble of troubles(cluster, random)) {
      await delay(random.between(...CALM_MS));
      await trouble();
    }
    await delay(random.between(...CALM_MS));
  } finally {
    clearInterval(cuts);
  }
};

const LOBBY_CLIENTS = 9;
const CHAT_CLIENTS = 6;
const SCORE_CLIENTS = 8;
const OPEN_CHAT = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };
/** After the last fault, everything agrees within this time. */
const AGREED = { timeoutMs: 10_000 };

/**
 * Random clients of three web processes behind one port, of which one is killed and one stands still while
 * connections are cut. What clients were told must be true, whatever the faults did to it.
 */
describe("histories of random clients on three web processes, with faults", () => {
  const random = seeded();
  const history = new History();
  let cluster: WebCluster;
  let database: Database;
  let hall: Hall;
  let talk: Talk;
  let contest: Contest;
  let players: LobbyClient[] = [];
  let talkers: ChatClient[] = [];
  const watchers: [BoardKey, Staying][] = [];

  const openAll = async (): Promise<(() => Promise<void>)[]> => {
    const { api, tenant } = cluster;
    const { key, projectId } = tenant;
    const several = (count: number) => Promise.all(range(1, count).map(() => aPlayer(api, key)));
    hall = openHall(api, key, history);
    const lobbyPlayers = await several(LOBBY_CLIENTS);
    players = lobbyPlayers.map((player, i) => new LobbyClient(hall, player, random.fork(`lobby ${i}`)));

    const channel = { kind: "PROJECT", key: "talk", name: "Talk", settings: OPEN_CHAT };
    const { id: channelId } = must(await api.post("/api/v1/chat/channels", channel, { key }), 201);
    talk = { api, key, channelId, history, isOver: false };
    const chatPlayers = await several(CHAT_CLIENTS);
    talkers = chatPlayers.map((player, i) => {
      const name = `reader ${i}`;
      return new ChatClient(talk, player, { name, random: random.fork(name) });
    });
    await Promise.all(talkers.map(({ place }) => place.enter()));

    contest = { api, key, projectId, history, isOver: false };
    await makeBoards(contest);
    const scorers = await several(SCORE_CLIENTS);
    for (const board of BOARD_KEYS)
      for (const player of scorers.slice(0, 3))
        watchers.push([board, await watchBoard(api, player, board).enter()]);
    return [
      ...players.map((player) => () => player.play()),
      ...talkers.map((talker) => () => talker.speak()),
      ...scorers.map((player, i) => () => compete(contest, player, random.fork(`score ${i}`))),
    ];
  };

  before(async () => {
    cluster = await startWebCluster(3);
    database = await openPostgres(cluster.services.databaseUrl, 2);
    const loads = (await openAll()).map((load) => load());
    await makeTrouble(cluster, random.fork("trouble"));
    for (const load of [hall, talk, contest]) load.isOver = true;
    await Promise.all(loads);
  });
  after(async () => {
    for (const load of [hall, talk, contest]) if (load) load.isOver = true;
    for (const player of players) player.stop();
    for (const { place } of talkers) place.stop();
    for (const [, watcher] of watchers) watcher.stop();
    await database?.close();
    await cluster?.stop();
  });

  const query = async <T>(text: ReturnType<typeof sql<T>>): Promise<T[]> =>
    (await text.execute(database.em.fork().getKysely())).rows;

  /** Lobbies that are not over, as all rooms and the API show them, are one. */
  const agreeOnLobbies = async (): Promise<void> => {
    const places = players.flatMap((player) => [...player.places]).filter(([, { isOver }]) => !isOver);
    const stored = await query(sql<{ id: string; version: number; member_count: number }>`
      select id, version, member_count from lobbies where project_id = ${cluster.tenant.projectId}`);
    for (const { id, version, member_count } of stored) {
      const path = `/api/v1/lobbies/${id}`;
      const lobby = seenOf(answered(await cluster.api.get(path, { key: cluster.tenant.key })));
      assert.deepEqual([lobby.version, lobby.players.length], [version, member_count]);
      for (const [, place] of places.filter(([lobbyId]) => lobbyId === id)) {
        assert.ok(
          place.room && place.isOpen,
          `${lobby.status}, ${performance.now()}: ${place.trail.join("; ")}`,
        );
        assert.deepEqual(shownBy(place.room), lobby);
      }
    }
  };

  it("lobbies seat and start as they say, and are the same everywhere within 10 s", async () => {
    await eventuallyHolds(agreeOnLobbies, AGREED);
    const matches = await query(sql<{ lobbyId: string; matchId: string }>`
      select lobby_id as "lobbyId", id as "matchId" from lobby_matches`);
    assert.ok(matches.length > 2, `only ${matches.length} matches were begun`);
    const operations = history.of<never, never>("join", "leave", "end", "close", "start");
    assert.deepEqual(lobbyViolations({ operations, matches, sights: hall.sights, told: hall.told }), []);
    await assertLobbies(database.em);
  });

  it("messages of a channel are all there, once, in one order for everybody, within 10 s", async () => {
    const sends = history.of<never, never>("send");
    await eventuallyHolds(async () => {
      const stored = await readChannel(talk);
      assert.ok(stored.length > 50, `only ${stored.length} messages`);
      assert.deepEqual(appendViolations({ sends, stored, readers: talkers }), []);
    }, AGREED);
  });

  /** What all who can be asked show of a board. */
  const viewsOf = async (board: BoardKey, ids: readonly string[]): Promise<BoardHistory["views"]> => {
    const rooms = watchers.filter(([name]) => name === board);
    return [
      { name: "pages", places: await readPages(contest, board) },
      { name: "lines of players", places: await readLines(contest, board, ids) },
      ...rooms.map(([, watcher], i) => ({ name: `room ${i}`, places: placesShown(watcher) })),
    ];
  };

  it("scores are what was answered, and ranks the same everywhere within 10 s", async () => {
    await eventuallyHolds(async () => {
      for (const board of BOARD_KEYS) {
        const ranked = await rankBySql(database, contest, board);
        assert.ok(ranked.length > 1);
        const ids = ranked.map(({ playerId }) => playerId);
        const submits = history.of<never, never>(`submit ${board}`);
        const views = await viewsOf(board, ids);
        assert.deepEqual(leaderboardViolations({ ...BOARDS[board], submits, ranked, views }), []);
      }
    }, AGREED);
  });
});
