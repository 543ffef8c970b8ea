import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { newId, partitionOf } from "../../../src/domain/kernel/ids.ts";
import { NewLeaderboard } from "../../../src/domain/evaluation/boards/definition.ts";
import type { Leaderboard } from "../../../src/domain/progression/load-plan.ts";
import { createLeaderboard, entrySource } from "../../../src/domain/leaderboards/leaderboards.ts";
import { createMemoryRanks } from "../../../src/domain/leaderboards/rank-index.ts";
import {
  createRankMoves,
  type RankMoves,
  withOwnChanges,
} from "../../../src/domain/leaderboards/rank-moves.ts";
import { BoardCache, type LeaderboardParts } from "../../../src/domain/leaderboards/live-list.ts";
import { OwnChanges } from "../../../src/domain/kernel/own-changes.ts";
import { YoungCache } from "../../../src/domain/kernel/caches.ts";
import { readBy } from "../../../src/domain/kernel/read.ts";
import type { Turn } from "../../../src/domain/evaluation/turn.ts";
import { relayPartitions } from "../../../src/domain/delivery/outbox/relay.ts";
import { changePlayer } from "../../../src/domain/progression/change.ts";
import { createPlanCache } from "../../../src/domain/progression/plan.ts";
import { grantXp } from "../../../src/domain/evaluation/xp/xp.ts";
import { identifyPlayer } from "../../../src/domain/progression/players/players.ts";
import type { Topics } from "../../../src/domain/kernel/events/chat-views.ts";
import { storeEvents } from "../../../src/domain/tracking/event-input.ts";
import { createTransact, NO_WAKE_UPS } from "../../../src/domain/kernel/transact.ts";
import type { Transact } from "../../../src/domain/kernel/work.ts";
import type { Database } from "../../../src/platform/database.ts";
import { ALL_PARTS, processParts } from "./process-parts.ts";

/** `type` defaults to "goal", `at` to now. */
export type TestEvent = { user: string; type?: string; at?: Date; properties?: Json };

/** The domain over a database, without a server: a test says when events are processed and relayed. */
export type Domain = LeaderboardParts & {
  rankMoves: RankMoves;
  /** Of which nobody hears. */
  topics: Topics;
  addProject(): Promise<string>;
  addPlayer(projectId: string, externalUserId: string): Promise<string>;
  addBoard(projectId: string, definition: object): Promise<Leaderboard>;
  /** Grants XP, as an API call would or, with `eventId`, as a rule would. */
  grant(projectId: string, playerId: string, amount: number, eventId?: string): Promise<void>;
  /** Answers the ids of the events. */
  track(projectId: string, events: readonly TestEvent[]): Promise<string[]>;
  /** Processes until the queue is empty. */
  process(): Promise<void>;
  relay(): Promise<void>;
  /** Entries as they are stored: external id to [rankScore, rankTie], by rankScore. */
  entries(board: Leaderboard): Promise<[externalUserId: string, rankScore: number, rankTie: number][]>;
};

const silent: Topics = {
  publish: () => undefined,
  publishIfSubscribed: async () => undefined,
  subscribe: async () => () => undefined,
};

/** @param mayDie whether the test ends processes: an event that was evaluated meanwhile has a try less */
export const openDomain = ({ em }: Database, clock = () => new Date(), mayDie = false): Domain => {
  const onError = (error: unknown): void => {
    if (!mayDie || !String(error).includes("PROCESS_DIED")) assert.fail(String(error));
  };
  const changes = new OwnChanges();
  const transact = createTransact({ em, clock, wakeUps: NO_WAKE_UPS, onError, changes });
  const ranks = withOwnChanges(createMemoryRanks(entrySource(transact)), { changes, topics: silent });
  const options = { transact, plans: createPlanCache(), claimLimit: 100, onError };
  return {
    transact,
    ranks,
    read: readBy(transact),
    clock,
    boards: new BoardCache(),
    listFacts: new YoungCache({ items: 100, bytes: 100_000, changes }),
    rankMoves: createRankMoves({ ranks, topics: silent }),
    topics: silent,
    addProject: () => transact(({ db }) => insertProject(db)),
    addPlayer: async (projectId, externalUserId) =>
      (await transact((work) => identifyPlayer(work, projectId, { externalUserId }))).player.id,
    addBoard: (projectId, definition) =>
      transact((work) => createLeaderboard(work, projectId, NewLeaderboard.parse(definition))),
    grant: async (projectId, playerId, amount, eventId) => {
      const cause = eventId === undefined ? { kind: "API" as const } : { kind: "RULE" as const, eventId };
      const grant = { amount, reason: "test", key: newId(), cause };
      const give = (turn: Turn) => {
        grantXp(turn, grant);
        return () => undefined;
      };
      await transact((work) => changePlayer(work, { projectId, id: playerId }, give));
    },
    track: async (projectId, events) => {
      const rows = events.map((event) => newEvent(projectId, event));
      await transact((work) => storeEvents(work, rows));
      return rows.map(({ id }) => id);
    },
    process: async () => {
      await processParts(options, ALL_PARTS);
    },
    relay: async () => {
      while ((await relayPartitions({ transact, ranks, topics: silent }, ALL_PARTS)).again.length > 0);
    },
    entries: (board) => transact(({ db }) => readEntries(db, board)),
  };
};

type Executor = Parameters<Parameters<Transact>[0]>[0]["db"];

const insertProject = async (db: Executor): Promise<string> => {
  const [tenantId, projectId] = [randomUUID(), randomUUID()];
  await sql`
    insert into tenants (id, name, approval_status, plan, created_at, updated_at)
    values (${tenantId}, 'Test', 'APPROVED', 'FREE', now(), now())`.execute(db);
  await sql`
    insert into projects (id, tenant_id, name, created_at, updated_at)
    values (${projectId}, ${tenantId}, 'Test', now(), now())`.execute(db);
  return projectId;
};

const newEvent = (
  projectId: string,
  { user, type = "goal", at = new Date(), properties = {} }: TestEvent,
) => ({
  id: newId(),
  p: projectId,
  u: user,
  t: type,
  d: JSON.stringify(properties),
  ts: at.getTime(),
  at: Date.now(),
  k: null,
  x: null,
  h: partitionOf(projectId, user),
});

type Row = { external_user_id: string; rank_score: string | number; rank_tie: string | number };

const readEntries = async (db: Executor, board: Leaderboard): Promise<[string, number, number][]> => {
  const result = await sql<Row>`
    select p.external_user_id, e.rank_score, e.rank_tie from leaderboard_entries e
    join players p on p.project_id = e.project_id and p.id = e.player_id
    where e.project_id = ${board.projectId} and e.period_id = ${board.periodId}
    order by e.rank_score, e.rank_tie, p.external_user_id`.execute(db);
  return result.rows.map((row) => [row.external_user_id, Number(row.rank_score), Number(row.rank_tie)]);
};
