import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Leaderboard } from "../../src/domain/progression/load-plan.ts";
import { pauseLeaderboard, resumeLeaderboard } from "../../src/domain/leaderboards/leaderboards.ts";
import { startDatabase } from "../support/processes/services.ts";
import { eventually } from "../support/eventually.ts";
import type { Domain } from "../support/domain/domain.ts";

const USERS = 40;

describe("leaderboards made while players change", () => {
  let domain: Domain;
  let remove: () => Promise<void>;

  before(async () => {
    ({ domain, remove } = await startDatabase(12));
  });
  after(() => remove());

  const xpOf = (projectId: string) =>
    domain.transact(async ({ db }) => {
      const found = await sql<{ external_user_id: string; xp: string }>`
        select external_user_id, xp from players where project_id = ${projectId} and xp > 0
        order by xp desc, external_user_id`.execute(db);
      return found.rows.map((row) => [row.external_user_id, Number(row.xp)]);
    });
  const scores = async (board: Leaderboard) =>
    (await domain.entries(board))
      .map(([user, score]) => [user, 0 - score] as const)
      .toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));

  it("hold every player's last XP: no change is missed, whoever commits first", async () => {
    const projectId = await domain.addProject();
    const load = { isOver: false, grants: 0 };
    const grants = Array.from({ length: 4 }, async (_, w) => {
      const players: string[] = [];
      for (let i = 0; !load.isOver; i++) {
        if (i % 3 === 0) players.push(await domain.addPlayer(projectId, `user-${w}-${i}`));
        await domain.grant(projectId, players[(i * 7) % players.length]!, 1 + (i % 5));
        load.grants++;
      }
    });
    const boards: Leaderboard[] = [];
    for (let i = 0; i < 8; i++) {
      await eventually(() => load.grants > i * 20);
      const board = await domain.addBoard(projectId, {
        key: `xp-${i}`,
        name: "XP",
        metric: { source: "XP" },
      });
      if (i % 2 > 0) {
        boards.push(board);
        continue;
      }
      await domain.transact((work) => pauseLeaderboard(work, projectId, board.id));
      const resumed = await domain.transact((work) => resumeLeaderboard(work, projectId, board.id));
      boards.push(resumed.leaderboard);
    }
    load.isOver = true;
    await Promise.all(grants);
    const expected = await xpOf(projectId);
    assert.ok(expected.length > 20, `only ${expected.length} players came meanwhile`);
    for (const board of boards) assert.deepEqual(await scores(board), expected, board.key);
  });

  it("count every event once, whether a backfill or the worker sees it", async () => {
    const projectId = await domain.addProject();
    const load = { tracked: 0, total: 3_000 };
    const ingest = (async () => {
      while (load.tracked < load.total) {
        const events = Array.from({ length: 50 }, (_, i) => ({ user: `user-${(load.tracked + i) % USERS}` }));
        await domain.track(projectId, events);
        load.tracked += events.length;
      }
    })();
    const work = async (): Promise<void> => {
      while (load.tracked < load.total) await domain.process();
    };
    const workers = [work(), work(), work()];
    const boards: Leaderboard[] = [];
    const metric = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" };
    for (let i = 0; load.tracked < load.total && i < 90; i++) {
      boards.push(
        await domain.addBoard(projectId, { key: `goals-${i}`, name: "Goals", metric, backfill: true }),
      );
    }
    await Promise.all([ingest, ...workers]);
    await domain.process();
    assert.ok(boards.length > 3, `only ${boards.length} boards were made meanwhile`);
    for (const board of boards) {
      const sum = (await domain.entries(board)).reduce((all, [, score]) => all - score, 0);
      assert.equal(sum, load.total, board.key);
    }
  });
});
