import assert from "node:assert/strict";
import { type Answer, must } from "../http/client.ts";
import { type Arena, done, oneWins, type Race, sideIn, tally, together } from "./races.ts";
import type { Side } from "../app/sides.ts";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { upTo } from "../chat/talk.ts";
import { coded, manual, pooled, quiz, RIGHT } from "../quests/quest-game.ts";

const playersOf = (side: Side, count: number): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, () => side.player()));

const inOrder = (numbers: readonly number[]): number[] => numbers.toSorted((a, b) => a - b);

const numbersOf = (answers: readonly Answer[]): number[] =>
  inOrder(answers.filter(({ status }) => status === 201).map(({ body }) => body.serialNo as number));

const prize = (fulfilment: "CODE" | "EXTERNAL", more: object = {}) => ({
  key: "mug",
  name: "Mug",
  kind: "PRIZE",
  fulfilment,
  ...more,
});

const claimAll = (arena: Arena, { tenant: { key } }: Side, paths: readonly string[]): Promise<Answer[]> =>
  together(arena, paths.length, (client, i) => client.post(`${paths[i]}/claim`, {}, { key }));

export const rewardRaces: readonly Race[] = [
  {
    name: "awards a limited edition as often as it says, numbered without a gap",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      await side.make("/badges", { key: "gold", name: "Gold", maxAwards: 7 });
      const ids = await playersOf(side, 20);
      const answers = await together(arena, 20, (client, i) =>
        client.post(`/api/v1/players/${ids[i]}/badges/gold`, {}, { key }),
      );
      assert.deepEqual(tally(answers), { 201: 7, "409 OUT_OF_STOCK": 13 });
      assert.deepEqual(numbersOf(answers), upTo(7));
    },
  },
  {
    name: "awards a badge to one player once, however many ask",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      await side.make("/badges", { key: "b", name: "B", tiers: [{ tier: 1, rewards: { xp: 5 } }] });
      const player = `/api/v1/players/${await side.player()}`;
      await together(arena, 10, (client) => client.post(`${player}/badges/b`, {}, { key }));
      assert.equal(must(await side.send("get", player), 200).xp, 5);
    },
  },
  {
    name: "sells a stock of 10 exactly ten times, to many players and to one",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      await side.make("/currencies", { key: "coins", name: "Coins", initialBalance: 1_000 });
      await side.make(
        "/rewards",
        prize("EXTERNAL", { stock: 10, price: { currencyKey: "coins", amount: 1 } }),
      );
      const ids = await playersOf(side, 6);
      const answers = await together(arena, 24, (client, i) =>
        client.post("/api/v1/rewards/mug/purchase", { playerId: ids[i % 6] }, { key }),
      );
      assert.deepEqual(tally(answers), { 201: 10, "409 OUT_OF_STOCK": 14 });
      const stock = must(await side.send("get", "/api/v1/rewards/mug/stock"), 200);
      assert.deepEqual([stock.given, stock.left], [10, 0]);
      const balances = await Promise.all(
        ids.map(
          async (id) => must(await side.send("get", `/api/v1/players/${id}/balances`), 200).data[0].balance,
        ),
      );
      assert.equal(
        balances.reduce((sum: number, one: number) => sum + one, 0),
        6 * 1_000 - 10,
      );
    },
  },
  {
    name: "keeps to a player's limit of a reward",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      await side.make("/rewards", prize("EXTERNAL", { perPlayerLimit: 3 }));
      const playerId = await side.player();
      const answers = await together(arena, 12, (client) =>
        client.post("/api/v1/rewards/mug/grant", { playerId }, { key }),
      );
      assert.deepEqual(tally(answers), { 201: 3, "409 LIMIT_REACHED": 9 });
    },
  },
  {
    name: "gives each code of a prize to one grant, and to all of them while there are codes",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      await side.make("/rewards", prize("CODE"));
      const codes = upTo(16).map((n) => `CODE-${n}`);
      must(await side.send("post", "/api/v1/rewards/mug/codes", { codes }), 200);
      const ids = await playersOf(side, 16);
      const claims = await Promise.all(
        ids.slice(0, 8).map(async (playerId) => {
          const id = await side.make("/rewards/mug/grant", { playerId, delivery: "CLAIM" });
          return `/api/v1/players/${playerId}/rewards/${id}`;
        }),
      );
      const [claimed, granted] = await Promise.all([
        claimAll(arena, side, claims),
        together(arena, 8, (client, i) =>
          client.post("/api/v1/rewards/mug/grant", { playerId: ids[8 + i] }, { key }),
        ),
      ]);
      assert.deepEqual([tally(claimed), tally(granted)], [{ 200: 8 }, { 201: 8 }]);
      const given = [...claimed, ...granted].map(({ body }) => body.code as string);
      assert.deepEqual(given.toSorted(), codes.toSorted());
      const more = { playerId: ids[0] };
      const late = await side.send("post", "/api/v1/rewards/mug/grant", more);
      assert.deepEqual(tally([late]), { "409 OUT_OF_STOCK": 1 });
    },
  },
  {
    name: "gives what is claimed once, however often it is claimed at once",
    run: async (arena) => {
      const side = await sideIn(arena);
      await side.make("/rewards", { key: "box", name: "Box", kind: "BUNDLE", bundle: { xp: 5 } });
      const playerId = await side.player();
      const id = await side.make("/rewards/box/grant", { playerId, delivery: "CLAIM" });
      const path = `/api/v1/players/${playerId}/rewards/${id}`;
      const answers = await claimAll(
        arena,
        side,
        Array.from({ length: 8 }, () => path),
      );
      assert.deepEqual(tally(answers), { 200: 8 });
      assert.equal(must(await side.send("get", `/api/v1/players/${playerId}`), 200).xp, 5);
    },
  },
  {
    name: "takes a code into a pool once",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      await side.make("/rewards", prize("CODE"));
      const codes = upTo(50).map((n) => `CODE-${n}`);
      const answers = await together(arena, 6, (client) =>
        client.post("/api/v1/rewards/mug/codes", { codes }, { key }),
      );
      assert.deepEqual(tally(answers), { 200: 6 });
      assert.equal(
        answers.reduce((sum, { body }) => sum + (body.added as number), 0),
        50,
      );
    },
  },
];

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
