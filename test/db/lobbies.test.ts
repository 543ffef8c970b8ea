import assert from "node:assert/strict";
import { sql } from "kysely";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { leaveLobbies } from "../../src/domain/social/lobbies/leave-all.ts";
import {
  advanceLobby,
  createLobby,
  joinLobby,
  LOBBY_COMMANDS,
  NewLobby,
  Quickplay,
  quickplay,
} from "../../src/domain/social/lobbies/commands.ts";
import { setStatus } from "../../src/domain/player-lifecycle/includes.ts";
import { getPlayer } from "../../src/domain/progression/players/players.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import type { Database } from "../../src/platform/database.ts";
import type { Domain } from "../support/domain/domain.ts";
import { assertLobbies } from "../support/lobbies/room.ts";
import { startDatabase } from "../support/processes/services.ts";
import { pluck } from "../support/pluck.ts";

const CONNECTIONS = 20;
const SERVER = { kind: "SERVER" } as const;

describe("lobbies, with transactions that race", () => {
  let database: Database;
  let domain: Domain;
  let remove: () => Promise<void>;
  let projectId: string;
  before(async () => {
    ({ database, domain, remove } = await startDatabase(CONNECTIONS));
    projectId = await domain.addProject();
  });
  afterEach(() => assertLobbies(database.em));
  after(() => remove());

  let added = 0;
  /** Players by one statement, as many tests need many. */
  const several = async (n: number): Promise<string[]> => {
    const rows = await domain.sql<{ id: string }>`
      insert into players (project_id, id, external_user_id, created_at, updated_at)
      select ${projectId}, gen_random_uuid(), 'p' || i, now(), now()
      from generate_series(${added + 1}::int, ${added + n}::int) i returning id`;
    added += n;
    return rows.map(({ id }) => id);
  };
  const open = async (mode: string, settings: object = {}): Promise<string> => {
    const input = NewLobby.parse({ mode, minPlayers: 1, maxPlayers: 4, settings });
    return (await domain.transact((work) => createLobby(work, projectId, input, { via: "API" }))).lobby.id;
  };
  const ref = (lobbyId: string) => ({ projectId, lobbyId });
  /** The reasons of what was refused, and "ok" for what was done, each with how often. */
  const race = async (
    runs: readonly ((work: Work) => Promise<unknown>)[],
  ): Promise<Record<string, number>> => {
    const counted: Record<string, number> = {};
    await Promise.all(
      runs.map(async (run) => {
        const outcome = await domain.transact(run).then(
          () => "ok",
          (error: unknown) => {
            if (error instanceof DomainError) return error.reason ?? error.code;
            throw error;
          },
        );
        counted[outcome] = (counted[outcome] ?? 0) + 1;
      }),
    );
    return counted;
  };
  const join = (lobbyId: string, playerId: string) => (work: Work) =>
    joinLobby(work, ref(lobbyId), { playerId });

  it("seat 4 of 50", async () => {
    const lobby = await open("seats");
    const players = await several(50);
    assert.deepEqual(await race(players.map((one) => join(lobby, one))), { ok: 4, LOBBY_FULL: 46 });
  });

  it("seat a player once, of 20 lobbies of a mode", async () => {
    const [player] = await several(1);
    const lobbies = await Promise.all(Array.from({ length: 20 }, () => open("once")));
    const outcomes = await race(lobbies.map((lobby) => join(lobby, player!)));
    assert.deepEqual(outcomes, { ok: 1, ALREADY_IN_LOBBY: 19 });
  });

  it("are 10 and full after 40 quickplays, and again 10 with others in between", async () => {
    for (const mode of ["quick", "quicker"]) {
      const wish = Quickplay.parse({ mode, minPlayers: 1, maxPlayers: 4 });
      const players = await several(40);
      const outcomes = await race(
        players.map((playerId) => (work) => quickplay(work, projectId, playerId, wish)),
      );
      assert.deepEqual(outcomes, { ok: 40 });
      const rows = await domain.sql<{ member_count: number }>`
        select member_count from lobbies where mode = ${mode}`;
      assert.deepEqual(
        pluck(rows, "member_count"),
        Array.from({ length: 10 }, () => 4),
      );
    }
  });

  it("start one match, however many start and however many clocks strike", async () => {
    const lobby = await open("starts", { readyPolicy: "HOST", countdownSeconds: 0 });
    await domain.transact(join(lobby, (await several(1))[0]!));
    const start = (work: Work) => LOBBY_COMMANDS["lobby.start"].run(work, ref(lobby), SERVER, {});
    const advance = (work: Work) => advanceLobby(work, ref(lobby));
    const runs = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? start : advance));
    assert.deepEqual(await race(runs), { ok: 11, LOBBY_NOT_OPEN: 9 });
  });

  it("keep nobody whom a ban has met on the way in", async () => {
    const players = await several(15);
    const lobbies = await Promise.all(players.map(() => open("bans")));
    const ban = (id: string) => async (work: Work) =>
      setStatus(work, await getPlayer(work, projectId, id), {
        status: "BANNED",
        reason: "cheats",
        cause: { kind: "API" },
      });
    await race(players.flatMap((player, i) => [join(lobbies[i]!, player), ban(player)]));
    const rows = await domain.sql`
      select m.player_id from lobby_members m join players p on p.id = m.player_id
      where p.status = 'BANNED' and m.is_active`;
    assert.deepEqual(rows, []);
  });

  it("do not deadlock when players come and go in many lobbies at once", async () => {
    const players = await several(10);
    const lobbies = await Promise.all(Array.from({ length: 5 }, (_, i) => open(`busy-${i}`)));
    const comings = players.flatMap((player) => lobbies.map((lobby) => join(lobby, player)));
    const goings = players.map((playerId) => async (work: Work) => {
      await sql`select from players where id = ${playerId} for update`.execute(work.db);
      await leaveLobbies(work, { projectId, playerId }, "LEFT");
    });
    await race([...comings, ...goings, ...comings, ...goings]);
  });
});
