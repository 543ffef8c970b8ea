import assert from "node:assert/strict";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { DEFINITION_MAX_BYTES } from "../../src/domain/kernel/limits.ts";
import { bytesOf } from "../../src/domain/kernel/hostile-json.ts";
import { readEntry } from "../../src/domain/leaderboards/entries.ts";
import {
  archiveLeaderboard,
  LEADERBOARDS_MAX,
  listLeaderboards,
  patchLeaderboard,
  pauseLeaderboard,
  resumeLeaderboard,
} from "../../src/domain/leaderboards/leaderboards.ts";
import { loadBoards } from "../../src/domain/progression/load-plan.ts";
import { memoryDomain } from "../support/domain/domain.ts";
import { pluck } from "../support/pluck.ts";

const reason = (expected: string) => (error: unknown) =>
  error instanceof DomainError && error.reason === expected;

const xp = { key: "xp", name: "XP", metric: { source: "XP" } };
const custom = { key: "scores", name: "Scores", metric: { source: "CUSTOM" }, operator: "BEST" };
const goals = (part: object = {}) => ({
  key: "goals",
  name: "Goals",
  metric: { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count", ...part },
});

describe("leaderboards", () => {
  const { domain } = memoryDomain();
  let projectId: string;

  beforeEach(async () => {
    projectId = await domain.addProject();
  });

  describe("creation", () => {
    it("fills an XP board from players, at the time of the grant that made the score", async () => {
      const [ann, , cid] = [
        await domain.addPlayer(projectId, "ann"),
        await domain.addPlayer(projectId, "without-xp"),
        await domain.addPlayer(projectId, "cid"),
      ];
      const start = Date.now();
      await domain.grant(projectId, ann, 50);
      await domain.grant(projectId, cid, 20);
      await domain.grant(projectId, cid, 70);
      const board = await domain.addBoard(projectId, xp);
      const entries = await domain.entries(board);
      assert.deepEqual(
        entries.map(([user, score]) => [user, score]),
        [
          ["cid", -90],
          ["ann", -50],
        ],
      );
      for (const [, , tie] of entries) assert.ok(tie >= start * 1_000 && tie <= Date.now() * 1_000);
      const negated = await domain.addBoard(projectId, { ...xp, key: "latest", ties: "LATEST", sort: "ASC" });
      const mirrored = entries.map(([user, score, tie]) => [user, -score, -tie]).toReversed();
      assert.deepEqual(await domain.entries(negated), mirrored);
    });

    it("fills an XP board with the time of the event behind a score, not of its processing", async () => {
      const ann = await domain.addPlayer(projectId, "ann");
      const at = new Date("1966-07-30T17:17:00Z");
      const [eventId] = await domain.track(projectId, [{ user: "ann", at }]);
      await domain.grant(projectId, ann, 5);
      await domain.grant(projectId, ann, 30, eventId);
      const board = await domain.addBoard(projectId, xp);
      assert.deepEqual(await domain.entries(board), [["ann", -35, at.getTime() * 1_000]]);
    });

    it("starts an EVENT board empty, and counts from then on", async () => {
      await domain.track(projectId, [{ user: "ann" }]);
      await domain.process();
      const board = await domain.addBoard(projectId, goals());
      assert.deepEqual(await domain.entries(board), []);
      await domain.track(projectId, [{ user: "ann" }, { user: "bob" }, { user: "ann" }]);
      await domain.process();
      assert.deepEqual(
        (await domain.entries(board)).map(([user, score]) => [user, score]),
        [
          ["ann", -2],
          ["bob", -1],
        ],
      );
    });

    it("backfills what counting live would have given, and leaves waiting events for later", async () => {
      const definitions = [
        goals({ event: { eventTypes: ["goal", "own.*"], filter: { path: "cup", op: "eq", value: "men" } } }),
        goals({ aggregate: "sum", property: "n" }),
        goals({ aggregate: "max", property: "n" }),
        goals({ aggregate: "min", property: "n" }),
        goals({ aggregate: "latest", property: "n" }),
      ].map((definition, i) => ({ ...definition, key: `board-${i}`, sort: i % 2 === 0 ? "DESC" : "ASC" }));
      const live = [];
      for (const definition of definitions) live.push(await domain.addBoard(projectId, definition));
      const events = Array.from({ length: 120 }, (_, i) => ({
        user: `user-${(i * 7) % 10}`,
        type: ["goal", "own.goal", "card"][i % 3]!,
        at: new Date(1_600_000_000_000 + ((i * 37) % 50) * 60_000),
        properties: { cup: i % 4 === 0 ? "women" : "men", n: i % 5 === 0 ? "none" : ((i * 13) % 21) - 10 },
      }));
      await domain.track(projectId, events.slice(0, 80));
      await domain.process();
      await domain.track(projectId, events.slice(80));
      const filled = [];
      for (const definition of definitions) {
        filled.push(
          await domain.addBoard(projectId, { ...definition, key: `${definition.key}-b`, backfill: true }),
        );
      }
      await domain.process();
      for (const [i, board] of live.entries()) {
        const expected = await domain.entries(board);
        assert.ok(expected.length >= 5);
        assert.deepEqual(await domain.entries(filled[i]!), expected, definitions[i]!.metric.aggregate);
      }
    });

    it("backfills windows that are over as late ones, which give prizes only if the board says so", async () => {
      const today = new Date();
      await domain.track(
        projectId,
        [new Date(1_600_000_000_000), today].map((at) => ({ user: "ann", type: "goal", at })),
      );
      await domain.process();
      for (const prizesForLate of [false, true]) {
        const period = { kind: "DAILY" };
        const more = { key: `late-${prizesForLate}`, backfill: true, period, prizesForLate };
        const { id } = await domain.addBoard(projectId, { ...goals(), ...more });
        const rows = await domain.sql<{ is_late: boolean; grants_prizes: boolean }>`
          select is_late, grants_prizes from leaderboard_periods
          where project_id = ${projectId} and leaderboard_id = ${id} order by starts_at limit 2`;
        assert.deepEqual(pluck(rows, "is_late", "grants_prizes"), [
          [true, prizesForLate],
          [false, true],
        ]);
      }
    });

    it("does not backfill events that failed or were rejected", async () => {
      const player = await domain.addPlayer(projectId, "ann");
      await domain.sql`update players set status = 'BANNED' where project_id = ${projectId} and id = ${player}`;
      await domain.track(projectId, [{ user: "ann" }, { user: "bob" }]);
      await domain.process();
      const board = await domain.addBoard(projectId, { ...goals(), backfill: true });
      assert.deepEqual(
        (await domain.entries(board)).map(([user]) => user),
        ["bob"],
      );
    });

    it("refuses a taken key and more boards than the limit, and counts archived ones apart", async () => {
      await domain.addBoard(projectId, custom);
      await assert.rejects(domain.addBoard(projectId, custom), reason("KEY_TAKEN"));
      for (let i = 1; i < LEADERBOARDS_MAX; i++)
        await domain.addBoard(projectId, { ...custom, key: `scores-${i}` });
      await assert.rejects(
        domain.addBoard(projectId, { ...custom, key: "more" }),
        reason("LEADERBOARD_LIMIT"),
      );
      await domain.transact((work) => archiveLeaderboard(work, projectId, "scores-1"));
      await domain.addBoard(projectId, { ...custom, key: "more" });
      await assert.rejects(domain.addBoard(projectId, { ...custom, key: "scores-1" }), reason("KEY_TAKEN"));
    });
  });

  describe("changes", () => {
    it("and creations keep a board within its size as it is stored, with what was not sent", async () => {
      const part = { path: "cup", op: "in", value: Array.from({ length: 50 }, () => "x".repeat(100)) };
      const all = Array.from({ length: 6 }, () => part);
      const board = { ...goals({ event: { eventTypes: ["goal"], filter: { all } } }), description: "" };
      const described = (bytes: number) => ({
        ...board,
        description: "x".repeat(bytes - bytesOf(board)),
      });
      await assert.rejects(domain.addBoard(projectId, described(DEFINITION_MAX_BYTES)), /the largest part/);
      const { id } = await domain.addBoard(projectId, board);
      const { description } = described(DEFINITION_MAX_BYTES);
      await assert.rejects(
        domain.transact((work) => patchLeaderboard(work, projectId, id, { description })),
        reason("TOO_LARGE"),
      );
    });

    it("keep what is not named, clear with null, and refuse a stale version", async () => {
      const { id } = await domain.addBoard(projectId, { ...custom, description: "one", displayLimit: 5 });
      const patch = (body: Parameters<typeof patchLeaderboard>[3]) =>
        domain.transact((work) => patchLeaderboard(work, projectId, id, body));
      assert.equal((await patch({ name: "Two", version: 1 })).definition.description, "one");
      const { definition, version } = await patch({ description: null, displayLimit: 7, ties: "DENSE" });
      assert.deepEqual(
        [definition.description, definition.displayLimit, definition.ties, version],
        [undefined, 7, "DENSE", 3],
      );
      await assert.rejects(patch({ name: "Three", version: 1 }), reason("VERSION_CONFLICT"));
      await assert.rejects(patch({ ties: "LATEST" }), reason("TIES_FIXED"));
    });

    it("are refused on an archived board, which is listed only when asked for", async () => {
      await domain.addBoard(projectId, custom);
      await domain.addBoard(projectId, xp);
      await domain.transact((work) => archiveLeaderboard(work, projectId, "scores"));
      await assert.rejects(
        domain.transact((work) => resumeLeaderboard(work, projectId, "scores")),
        reason("LEADERBOARD_ARCHIVED"),
      );
      const list = (status?: "ARCHIVED") =>
        domain.transact(async (work) => {
          const { leaderboards, total } = await listLeaderboards(work, projectId, {
            page: 1,
            limit: 9,
            status,
          });
          assert.equal(total, leaderboards.length);
          return leaderboards.map(({ key }) => key);
        });
      assert.deepEqual(await list(), ["xp"]);
      assert.deepEqual(await list("ARCHIVED"), ["scores"]);
      assert.deepEqual(pluck(await domain.transact((work) => loadBoards(work, projectId)), "key"), ["xp"]);
    });

    it("stop the scores of a paused board; an XP board catches up when it resumes", async () => {
      const ann = await domain.addPlayer(projectId, "ann");
      const [board, events] = [
        await domain.addBoard(projectId, xp),
        await domain.addBoard(projectId, goals()),
      ];
      await domain.grant(projectId, ann, 10);
      assert.equal((await readEntry(domain, projectId, "xp", { playerId: ann })).value.score, 10);
      for (const key of ["xp", "goals"])
        await domain.transact((work) => pauseLeaderboard(work, projectId, key));
      await domain.grant(projectId, ann, 5);
      await domain.track(projectId, [{ user: "ann" }]);
      await domain.process();
      await domain.relay();
      assert.equal((await readEntry(domain, projectId, "xp", { playerId: ann })).value.score, 10);
      const resumed = await domain.transact((work) => resumeLeaderboard(work, projectId, "xp"));
      assert.equal(resumed.closedPeriodId, board.periodId);
      await domain.transact((work) => resumeLeaderboard(work, projectId, "goals"));
      assert.equal((await readEntry(domain, projectId, "xp", { playerId: ann })).value.score, 15);
      assert.deepEqual(await domain.entries(board), []);
      assert.deepEqual(await domain.entries(events), []);
      await domain.grant(projectId, ann, 1);
      await domain.relay();
      assert.equal((await readEntry(domain, projectId, "xp", { playerId: ann })).value.score, 16);
    });
  });
});
