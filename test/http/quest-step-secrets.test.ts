import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aKey, startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { playersOf } from "../support/players/players.ts";
import {
  aQuestGame,
  coded,
  HALF,
  manual,
  pooled,
  quiz,
  RIGHT,
  sha256,
  stepActs,
} from "../support/quests/quest-game.ts";
import { aPlayer, join } from "../support/rooms/sdk.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const CODE = "velvet-otter-19";
const POOLED = "amber-heron-42";
const steps = [quiz("quiz"), coded("code", [CODE]), pooled("card"), manual("wait", { target: 2 })];

/** What no player, client or webhook may read: the answers of quizzes, codes and their hashes. */
const secretsIn = (shown: unknown): string[] => {
  const text = JSON.stringify(shown);
  return ['"correct"', "codeHashes", CODE, sha256(CODE), POOLED, sha256(POOLED)].filter((secret) =>
    text.includes(secret),
  );
};

describe("answers of quizzes and codes of quests", () => {
  const { submit } = stepActs(() => game);

  const api = madeOnce(startApp);
  const game = madeForEach(() => aQuestGame(api));
  beforeEach(async () => {
    await game.publish({ key: "riddle", steps, stepMode: "PARALLEL", claim: "MANUAL" });
    must(await game.post("/quests/riddle/steps/card/codes", { codes: [POOLED] }), 200);
  });

  it("reach nobody who plays: in no answer, no live message, no event and no export", async () => {
    const player = await game.newPlayer();
    const { token, playerId } = await aPlayer(api, game.tenant.key);
    const me = await join(api, token, "player");
    const answers: unknown[] = [];
    const keep = async (answer: Promise<unknown>): Promise<void> => void answers.push(await answer);
    const path = `/players/${player}`;
    for (const [step, body] of [
      ["quiz", { answers: HALF }],
      ["code", { code: "wrong" }],
      ["quiz", { answers: RIGHT }],
      ["code", { code: CODE }],
      ["card", { code: POOLED }],
      ["wait", {}],
    ] as const) {
      await keep(submit("riddle", step, body));
      const room = me.room.request("quest.submit", { quest: "riddle", step, ...body });
      await keep(room.catch((error: { message: string }) => ({ refused: error.message })));
      for (const where of ["?include=quests", "/quests", "/quests/riddle"])
        await keep(api.get(`/api/v1${path}${where}`, { key: game.tenant.key }));
    }
    await keep(submit("riddle", "wait"));
    await keep(game.act("riddle", "claim"));
    for (const where of ["/quests/riddle/stats", "/quests/riddle/players", "/quest-reviews", "/limits"])
      await keep(api.get(`/api/v1${where}`, { key: game.tenant.key }));
    await eventually(() => me.named("quest.updated").length >= 4);
    answers.push(me.heard, me.room.state);
    assert.ok(JSON.stringify(answers).includes("The capital of France?"), "the questions are asked");
    assert.deepEqual(secretsIn(answers), []);
    const stored = await api.app.transact(async ({ db }) => {
      const of = sql`project_id = ${game.tenant.projectId}`;
      const { rows } = await sql<{ row: Json }>`
        select to_jsonb(t) as row from outbox t where ${of}
        union all select to_jsonb(t) from player_quests t where ${of}
        union all select to_jsonb(t) from player_states t where ${of}
        union all select to_jsonb(t) from quest_submissions t where ${of}
        union all select to_jsonb(t) from audit_log t where tenant_id = ${game.tenant.tenantId}`.execute(db);
      return rows;
    });
    assert.ok(stored.length > 10);
    assert.deepEqual(secretsIn(stored), []);
    await me.room.leave();
    const job = await game.make(`/players/${playerId}/export`, {});
    const bundle = await playersOf(api, game.tenant).resultOf(job.id);
    assert.ok(JSON.stringify(bundle).includes("riddle"));
    assert.deepEqual(secretsIn(bundle), []);
  });

  it("are shown to who writes quests, but for codes, which nobody can read", async () => {
    const { token, projectId } = game.tenant;
    const reader = await aKey(api, { token, projectId, scopes: ["quests:read"] });
    const team = { token, headers: { "X-Project-ID": projectId } };
    for (const where of ["/quests", "/quests/riddle", "/quests/riddle/versions"]) {
      const [read, written, seen] = await Promise.all([
        api.get(`/api/v1${where}`, { key: reader }),
        api.get(`/api/v1${where}`, { key: game.tenant.key }),
        api.get(`/api/v1${where}`, team),
      ]);
      assert.deepEqual(secretsIn(must(read, 200)), [], where);
      assert.deepEqual(secretsIn(must(written, 200)), ['"correct"'], where);
      assert.deepEqual(secretsIn(must(seen, 200)), ['"correct"'], where);
    }
    for (const [where, body] of [
      ["/quests/riddle/pause", {}],
      ["/quests/riddle/resume", {}],
      ["/quests/riddle/publish", {}],
      ["/quests/riddle/rollback", { version: 1 }],
      ["/quests/riddle/duplicate", { key: "copy" }],
    ] as const)
      assert.deepEqual(secretsIn((await game.post(where, body)).body), ['"correct"'], where);
    assert.deepEqual(secretsIn(must(await game.patch("/quests/riddle", { name: "New" }), 200)), [
      '"correct"',
    ]);
    assert.deepEqual(secretsIn(await game.get("/config/export")), ['"correct"']);
  });

  it("stay when a change or an import leaves the codes out", async () => {
    const shown = (await game.get("/quests/riddle")).steps;
    must(await game.patch("/quests/riddle", { steps: shown, name: "Riddles" }), 200);
    must(await game.post("/quests/riddle/publish"), 200);
    const document = await game.get("/config/export");
    assert.deepEqual(must(await game.post("/config/diff", { document }), 200).changes, []);
    document.quests[0].name = "Imported";
    must(await game.post("/config/import", { document }), 200);
    assert.equal((await game.get("/quests/riddle")).published.name, "Imported");
    await game.newPlayer();
    assert.equal(must(await submit("riddle", "code", { code: CODE }), 200).accepted, true);
    // Given anew, they replace those that are there.
    document.quests[0].steps[1].codeHashes = [sha256("new")];
    const changes = must(await game.post("/config/import", { document }), 200).changes;
    assert.deepEqual(changes, [{ section: "quests", key: "riddle", action: "UPDATE", fields: ["steps"] }]);
    await game.newPlayer();
    assert.equal(must(await submit("riddle", "code", { code: CODE }), 200).accepted, false);
    assert.equal(must(await submit("riddle", "code", { code: "NEW" }), 200).accepted, true);
  });

  it("are missing where an export goes to another project, and go along to a sandbox", async () => {
    const document = await game.get("/config/export");
    const other = await aQuestGame(api);
    assertError(await other.post("/config/import", { document }), 400, "CODES_MISSING");
    document.quests[0].steps[1].codeHashes = [sha256(CODE)];
    must(await other.post("/config/import", { document }), 200);

    const { token, projectId } = game.tenant;
    const key = await aKey(api, { token, projectId, environment: "test" });
    must(await api.post(`/api/v1/projects/${projectId}/sandbox/sync`, {}, { token }), 200);
    const { id } = must(await api.post("/api/v1/players", { externalUserId: "tester" }, { key }), 201);
    const path = `/api/v1/players/${id}/quests/riddle/steps`;
    assert.equal(must(await api.post(`${path}/code/submit`, { code: CODE }, { key }), 200).accepted, true);
    assert.equal(must(await api.post(`${path}/card/submit`, { code: POOLED }, { key }), 200).accepted, false);
  });
});
