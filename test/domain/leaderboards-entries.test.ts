import assert from "node:assert/strict";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { readEntries, readEntry } from "../../src/domain/leaderboards/entries.ts";
import { patchLeaderboard } from "../../src/domain/leaderboards/leaderboards.ts";
import {
  finishScore,
  type ScoreSubmission,
  submitPlayerScore,
} from "../../src/domain/leaderboards/record-scores.ts";
import { memoryDomain } from "../support/domain/domain.ts";

const reason = (expected: string) => (error: unknown) =>
  error instanceof DomainError && error.reason === expected;
const code = (expected: string) => (error: unknown) =>
  error instanceof DomainError && error.code === expected;

const custom = { key: "scores", name: "Scores", metric: { source: "CUSTOM" }, operator: "BEST" };

describe("leaderboard entries", () => {
  const { domain } = memoryDomain();
  let projectId: string;

  beforeEach(async () => {
    projectId = await domain.addProject();
  });

  const submitTo = async (key: string, submission: ScoreSubmission) => {
    const { result, left } = await submitPlayerScore(domain.transact, projectId, key, submission);
    return left ? finishScore(domain, left) : result;
  };
  const submit = (user: string, score: number, occurredAt?: Date) =>
    submitTo("scores", { playerId: `ext:${user}`, score, occurredAt });
  const read = (query: Parameters<typeof readEntries>[3] = {}) =>
    readEntries(domain, projectId, "scores", query).then(({ value }) => value);
  const names = async (query: Parameters<typeof readEntries>[3]) =>
    (await read(query)).data.map(({ externalUserId, rank }) => `${rank} ${externalUserId}`);

  const withScores = async (definition: object, count: number): Promise<void> => {
    await domain.addBoard(projectId, { ...custom, ...definition });
    for (let i = 0; i < count; i++) {
      await domain.addPlayer(projectId, `user-${i}`);
      await submit(`user-${i}`, 100 - Math.floor(i / 2), new Date(1_700_000_000_000 + i));
    }
  };

  it("end at the display limit, but for the player's own surroundings", async () => {
    await withScores({ displayLimit: 5 }, 8);
    assert.deepEqual(await names({ page: 2, limit: 3 }), ["4 user-3", "5 user-4"]);
    assert.deepEqual(await names({ page: 3, limit: 3 }), []);
    const { pagination } = await read({});
    assert.partialDeepStrictEqual(pagination, { page: 1, limit: 20, total: 5, totalPages: 1 });
    assert.deepEqual(await names({ around: "ext:user-7", limit: 2 }), ["7 user-6", "8 user-7"]);
  });

  it("answer 404 for a player without an entry or without existence", async () => {
    await withScores({}, 1);
    await domain.addPlayer(projectId, "new");
    assert.equal((await read({ playerId: "ext:new" })).me, null);
    await assert.rejects(read({ around: "ext:new" }), code("NOT_FOUND"));
    await assert.rejects(read({ playerId: "ext:nobody" }), code("NOT_FOUND"));
    await assert.rejects(readEntry(domain, projectId, "scores", { playerId: "ext:new" }), code("NOT_FOUND"));
  });

  it("do not show banned players", async () => {
    await withScores({}, 3);
    await domain.sql`update players set status = 'BANNED' where project_id = ${projectId}
      and external_user_id = 'user-0'`;
    assert.deepEqual(await names({}), ["2 user-1", "3 user-2"]);
    await assert.rejects(submit("user-0", 500), reason("PLAYER_INACTIVE"));
  });

  it("follow a change of ties", async () => {
    await withScores({}, 5);
    assert.deepEqual(await names({ page: 2, limit: 3 }), ["4 user-3", "5 user-4"]);
    await domain.transact((work) => patchLeaderboard(work, projectId, "scores", { ties: "DENSE" }));
    assert.deepEqual(await names({ page: 2, limit: 3 }), ["2 user-3", "3 user-4"]);
  });
});
