import assert from "node:assert/strict";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import type { Answer } from "../http/client.ts";
import { coded, manual, pooled, quiz, RIGHT } from "../quests/step-documents.ts";
import { type Arena, oneWins, type Race, sideIn, tally, together } from "./arena.ts";

const done = (answer: Answer): Answer => {
  assert.ok(answer.status < 300, JSON.stringify(answer.body));
  return answer;
};

/** A project with a quest of one step, which gives 10 XP. */
const aQuest = async (arena: Arena, step: Json, more: Json = {}) => {
  const { key } = (await sideIn(arena)).tenant;
  const [first] = arena.clients;
  const post = async (path: string, body: object = {}) =>
    done(await first!.post(`/api/v1${path}`, body, { key })).body;
  await post("/quests", { key: "race", name: "Race", steps: [step], rewards: { xp: 10 }, ...more });
  await post("/quests/race/publish");
  const aPlayer = async (name: string) => (await post("/players", { externalUserId: name })).id as string;
  const path = (player: string, what: string) => `/api/v1/players/${player}/quests/race/steps/step/${what}`;
  const xpOf = async (player: string) =>
    (await first!.get(`/api/v1/players/${player}`, { key })).body.xp as number;
  const list = async (query: string) =>
    (await first!.get(`/api/v1/quest-reviews?${query}`, { key })).body.data as Json[];
  return { key, post, aPlayer, path, xpOf, list };
};

const REQUESTS = 30;

const submissionsOfOneCode: Race = {
  name: `makes progress once of ${REQUESTS} submissions of one code, and of answers`,
  run: async (arena) => {
    for (const [step, body] of [
      [coded("step", ["a"]), { code: "a" }],
      [quiz("step"), { answers: RIGHT }],
    ] as const) {
      const { key, aPlayer, path, xpOf } = await aQuest(arena, step);
      const player = await aPlayer("racer");
      const answers = await together(arena, REQUESTS, (client) =>
        client.post(path(player, "submit"), body, { key }),
      );
      const counts = tally(answers);
      assert.equal(counts["200"], 1, JSON.stringify(counts));
      // Ten of them were let through to be compared.
      assert.equal(counts["409 QUEST_NOT_AVAILABLE"], 9, JSON.stringify(counts));
      assert.equal(counts["429 QUEST_ATTEMPTS"], REQUESTS - 10, JSON.stringify(counts));
      assert.equal(await xpOf(player), 10);
    }
  },
};

const confirmations: Race = {
  name: `counts each of ${REQUESTS} confirmations once, and no more than are needed`,
  run: async (arena) => {
    const { key, aPlayer, path, xpOf } = await aQuest(arena, manual("step", { target: 20 }));
    const player = await aPlayer("racer");
    const answers = await together(arena, REQUESTS, (client) =>
      client.post(path(player, "submit"), {}, { key }),
    );
    assert.deepEqual(tally(answers), { "200": 20, "409 QUEST_NOT_AVAILABLE": REQUESTS - 20 });
    assert.equal(await xpOf(player), 10);
  },
};

const PLAYERS = 8;

const lastCode: Race = {
  name: `gives the last code of a pool to one of ${PLAYERS} players who enter it at once`,
  run: async (arena) => {
    const { key, post, aPlayer, path, xpOf } = await aQuest(arena, pooled("step"));
    await post("/quests/race/steps/step/codes", { codes: ["last"] });
    const players = await Promise.all(Array.from({ length: PLAYERS }, (_, i) => aPlayer(`racer-${i}`)));
    const answers = await together(arena, PLAYERS, (client, i) =>
      client.post(path(players[i]!, "submit"), { code: "LAST" }, { key }),
    );
    assert.deepEqual(tally(answers), { "200": PLAYERS });
    assert.equal(answers.filter(({ body }) => body.accepted).length, 1);
    const xp = await Promise.all(players.map(xpOf));
    assert.equal(
      xp.reduce((sum, one) => sum + one),
      10,
    );
  },
};

const ROUNDS = 5;

const reviews: Race = {
  name: "takes one decision about a submission, whether several approve or some reject at once",
  run: async (arena) => {
    const step = manual("step", { requiresApproval: true, evidence: "TEXT" });
    const { key, aPlayer, path, xpOf, list } = await aQuest(arena, step);
    for (let round = 0; round < ROUNDS; round++) {
      const player = await aPlayer(`racer-${round}`);
      const submit = { evidence: "done" };
      const { body } = done(await arena.clients[0]!.post(path(player, "submit"), submit, { key }));
      const { submissionId } = body;
      const decide = (i: number) => (round > 0 && i % 2 === 1 ? "REJECT" : "APPROVE");
      const answers = await together(arena, 8, (client, i) =>
        client.post(path(player, "review"), { decision: decide(i), submissionId }, { key }),
      );
      oneWins(answers, 200, "409 INVALID_STATE");
      const won = decide(answers.findIndex(({ status }) => status === 200));
      const [submission] = await list(`playerId=${player}`);
      assert.equal(submission!["status"], won === "APPROVE" ? "APPROVED" : "REJECTED");
      assert.equal(await xpOf(player), won === "APPROVE" ? 10 : 0);
    }
  },
};

/** What must hold when several submit and review steps of quests at the same time. */
export const questStepRaces: readonly Race[] = [submissionsOfOneCode, confirmations, lastCode, reviews];
