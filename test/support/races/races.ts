import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { type Answer, type Client, must } from "../http/client.ts";
import { eventually } from "../eventually.ts";
import { ruleDocument } from "../operations/bodies.ts";
import { aSide, type Side } from "../app/sides.ts";
import { counting } from "../quests/quest-game.ts";

/** Where a race is run: clients of one server each, or of one and the same. */
export type Arena = { clients: readonly Client[] };
/** `isSlow`: waits for caches to grow old where there are several servers. */
export type Race = { name: string; isSlow?: true; run(arena: Arena): Promise<void> };

type Run = (client: Client, i: number) => Promise<Answer>;

/** `count` requests at once, dealt out over the clients; one that a busy server refuses is sent once more. */
export const together = ({ clients }: Arena, count: number, run: Run): Promise<Answer[]> => {
  const send = (_: unknown, i: number) => run(clients[i % clients.length]!, i);
  const again = async (answer: Answer, i: number) => (answer.status === 503 ? send(answer, i) : answer);
  return Promise.all(Array.from({ length: count }, async (_, i) => again(await send(_, i), i)));
};

export const sideIn = ({ clients }: Arena): Promise<Side> => aSide(clients[0]!);

/** How many answers there are of each status and reason. */
export const tally = (answers: readonly Answer[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { status, body } of answers) {
    const name = body?.error ? `${status} ${body.error.reason ?? body.error.message}` : String(status);
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
};

export const oneWins = (answers: readonly Answer[], won: number, lost: string): void =>
  assert.deepEqual(tally(answers), { [won]: 1, [lost]: answers.length - 1 });

const isQuiet = async ({ clients }: Arena, key: string): Promise<boolean> => {
  const { body } = await clients[0]!.get("/api/v1/events?status=PENDING&limit=1", { key });
  return body.data.length === 0;
};

const definitions: Race[] = [
  {
    name: "gives a leaderboard's key to one of those who want it",
    run: async (arena) => {
      const { tenant } = await sideIn(arena);
      const body = { key: "taken", name: "Board", metric: { source: "XP" } };
      const make: Run = (client) => client.post("/api/v1/leaderboards", body, { key: tenant.key });
      oneWins(await together(arena, 6, make), 201, "409 KEY_TAKEN");
    },
  },
  {
    name: "gives a rule's key to one of those who want it, new or renamed",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const body = { ...ruleDocument(), key: "taken" };
      const rules = await Promise.all([side.rule(), side.rule(), side.rule()]);
      const answers = await together(arena, 6, (client, i) =>
        i < 3
          ? client.post("/api/v1/rules", body, { key })
          : client.patch(`/api/v1/rules/${rules[i - 3]}`, { draftVersion: 1, key: "taken" }, { key }),
      );
      const won = answers.filter(({ status }) => status < 300);
      assert.equal(won.length, 1, JSON.stringify(tally(answers)));
      assert.deepEqual(tally(answers.filter((one) => one !== won[0])), { "409 KEY_TAKEN": 5 });
    },
  },
  {
    name: "takes one of the edits of a draft, and publishes whole drafts",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const rule = await side.rule("publish");
      const answers = await together(arena, 12, (client, i) =>
        i % 2 === 0
          ? client.patch(
              `/api/v1/rules/${rule}`,
              { draftVersion: 1, priority: i, name: `Edit ${i}` },
              { key },
            )
          : client.post(`/api/v1/rules/${rule}/publish`, {}, { key }),
      );
      oneWins(
        answers.filter((_, i) => i % 2 === 0),
        200,
        "409 VERSION_CONFLICT",
      );
      const versions = answers
        .filter((_, i) => i % 2 === 1)
        .map(({ body }) => body.publishedVersion as number);
      assert.deepEqual(versions.toSorted(), [2, 3, 4, 5, 6, 7]);
      const { body } = await arena.clients[0]!.get(`/api/v1/rules/${rule}`, { key });
      for (const { name, priority } of [body.draft, body.published])
        assert.equal(
          name === "A rule" ? 5 : Number(name.slice(5)),
          priority,
          "name and priority are of one edit",
        );
    },
  },
  {
    name: "takes a rule through one of its transitions at a time",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const rule = await side.rule("publish");
      const steps = ["pause", "pause", "resume", "resume", "publish", "pause", "resume", "publish"];
      const answers = await together(arena, steps.length, (client, i) =>
        client.post(`/api/v1/rules/${rule}/${steps[i]}`, {}, { key }),
      );
      const allowed = new Set(["200", "409 INVALID_STATE"]);
      assert.ok(
        Object.keys(tally(answers)).every((name) => allowed.has(name)),
        JSON.stringify(tally(answers)),
      );
      const ends = await together(arena, 4, (client) => client.delete(`/api/v1/rules/${rule}`, { key }));
      oneWins(ends, 200, "409 INVALID_STATE");
    },
  },
  {
    name: "numbers level curves one after another",
    run: async (arena) => {
      const { tenant } = await sideIn(arena);
      const answers = await together(arena, 6, (client, i) =>
        client.request("PUT", "/api/v1/level-curve", {
          key: tenant.key,
          body: { type: "LINEAR", params: { base: 100 + i, maxLevel: 5 }, recalculate: "SILENT" },
        }),
      );
      assert.deepEqual(answers.map(({ body }) => body.version as number).toSorted(), [1, 2, 3, 4, 5, 6]);
    },
  },
];

const accounts: Race[] = [
  {
    name: "registers an address once, whatever its case",
    run: async (arena) => {
      const name = randomUUID();
      const answers = await together(arena, 6, (client, i) => {
        const email = `${i % 2 === 0 ? name : name.toUpperCase()}@example.com`;
        const body = { email, password: "Correct-horse-7", name: "Test Owner" };
        const headers = { "X-Forwarded-For": `10.9.${i}.7` };
        return client.post("/api/v1/auth/register", body, { headers });
      });
      oneWins(answers, 201, "409 EMAIL_ALREADY_EXISTS");
    },
  },
  {
    name: "revokes a key once, and makes one sandbox for all test keys",
    run: async (arena) => {
      const { tenant, apiKey } = await sideIn(arena);
      const keys = `/api/v1/projects/${tenant.projectId}/api-keys`;
      const id = await apiKey();
      const revoked = await together(arena, 6, (client) =>
        client.delete(`${keys}/${id}`, { token: tenant.token }),
      );
      oneWins(revoked, 200, "409 INVALID_STATE");
      const made = await together(arena, 6, (client) =>
        client.post(keys, { name: "Test", environment: "test", scopes: ["*"] }, { token: tenant.token }),
      );
      assert.deepEqual(tally(made), { 201: 6 });
      const players = await Promise.all(
        made.map(({ body }, i) => {
          const client = arena.clients[i % arena.clients.length]!;
          return client.post("/api/v1/players", { externalUserId: "one" }, { key: body.key });
        }),
      );
      assert.equal(new Set(players.map(({ body }) => body.id)).size, 1);
    },
  },
];

const players: Race[] = [
  {
    name: "makes one player, whoever names it first: an identification, an event, a token, a score",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const externalUserId = `user-${randomUUID()}`;
      const answers = await together(arena, 12, (client, i) => {
        if (i % 3 === 0) return client.post("/api/v1/players", { externalUserId }, { key });
        if (i % 3 === 1) return client.post("/api/v1/auth/ws-token", { externalUserId }, { key });
        return client.post("/api/v1/events?wait=true", { externalUserId, eventType: "seen" }, { key });
      });
      assert.ok(
        answers.every(({ status }) => status < 300),
        JSON.stringify(tally(answers)),
      );
      const ids = answers.flatMap(({ body }) => body.playerId ?? (body.externalUserId ? body.id : []));
      assert.equal(new Set(ids).size, 1);
      assert.ok(answers.filter(({ status }) => status === 201).length <= 1);
      await eventually(() => isQuiet(arena, key));
    },
  },
  {
    name: "adds XP of grants and of rules up exactly while definitions change",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const [rule, player] = await Promise.all([side.rule(), side.player()]);
      const body = { draftVersion: 1, limits: null, conditions: { all: [] }, schedule: null };
      const actions = [{ type: "grant_xp", amount: 7 }];
      await arena.clients[0]!.patch(`/api/v1/rules/${rule}`, { ...body, actions }, { key });
      await arena.clients[0]!.post(`/api/v1/rules/${rule}/publish`, {}, { key });
      const { externalUserId } = (await arena.clients[0]!.get(`/api/v1/players/${player}`, { key })).body;
      const answers = await together(arena, 60, (client, i) => {
        if (i % 3 === 0) return client.post(`/api/v1/players/${player}/xp`, { amount: 5 }, { key });
        if (i % 3 === 1)
          return client.post("/api/v1/events", { externalUserId, eventType: "swept" }, { key });
        if (i % 2 === 0) return client.post("/api/v1/rules", ruleDocument(), { key });
        return client.post(`/api/v1/rules/${rule}/publish`, {}, { key });
      });
      assert.ok(
        answers.every(({ status }) => status < 300),
        JSON.stringify(tally(answers)),
      );
      await eventually(() => isQuiet(arena, key));
      const shown = await arena.clients[0]!.get(`/api/v1/players/${player}`, { key });
      assert.equal(shown.body.xp, 20 * 5 + 20 * 7);
    },
  },
  {
    name: "adds submitted scores up exactly, and keeps the best and the latest",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const [client] = arena.clients as [Client];
      const player = await side.player();
      for (const operator of ["SUM", "BEST", "LATEST"]) {
        const board = { key: operator.toLowerCase(), name: operator, metric: { source: "CUSTOM" }, operator };
        await client.post("/api/v1/leaderboards", board, { key });
      }
      const answers = await together(arena, 60, (one, i) => {
        const board = ["sum", "best", "latest"][i % 3];
        const occurredAt = new Date(Date.UTC(2026, 0, 1, 0, 0, i)).toISOString();
        return one.post(
          `/api/v1/leaderboards/${board}/scores`,
          { playerId: player, score: i, occurredAt },
          { key },
        );
      });
      assert.deepEqual(tally(answers), { 200: 60 });
      const scoreOf = async (board: string) =>
        (await client.get(`/api/v1/leaderboards/${board}/players/${player}`, { key })).body.score;
      const sum = Array.from({ length: 20 }, (_, n) => n * 3).reduce((a, b) => a + b, 0);
      assert.deepEqual([await scoreOf("sum"), await scoreOf("best"), await scoreOf("latest")], [sum, 58, 59]);
    },
  },
  {
    name: "stores an idempotency key once, sent alone or in batches",
    run: async (arena) => {
      const { tenant } = await sideIn(arena);
      const event = { externalUserId: "u", eventType: "seen", idempotencyKey: "once" };
      const answers = await together(arena, 12, (client, i) =>
        i % 2 === 0
          ? client.post("/api/v1/events", event, { key: tenant.key })
          : client.post("/api/v1/events/batch", { events: [event, event] }, { key: tenant.key }),
      );
      const results = answers.flatMap(({ body }) => body.results ?? [body]) as {
        status: string;
        eventId: string;
      }[];
      assert.equal(results.length, 18);
      assert.equal(results.filter(({ status }) => status === "PENDING").length, 1);
      assert.equal(new Set(results.map(({ eventId }) => eventId)).size, 1);
    },
  },
];

const deletions: Race[] = [
  {
    name: "processes what a project was sent before it was deleted, and hinders nobody else",
    isSlow: true,
    run: async (arena) => {
      const side = await sideIn(arena);
      const other = await sideIn(arena);
      const { key, token, projectId } = side.tenant;
      const events = Array.from({ length: 20 }, (_, i) => ({ externalUserId: `u${i}`, eventType: "seen" }));
      const answers = await together(arena, 20, (client, i) => {
        if (i === 10) return client.delete(`/api/v1/projects/${projectId}`, { token });
        return client.post("/api/v1/events/batch", { events }, { key });
      });
      const refused = answers.filter(({ status }) => status >= 400);
      assert.ok(
        refused.every(({ status }) => status === 401),
        JSON.stringify(tally(answers)),
      );
      const gone = () => arena.clients.map((client) => client.get("/api/v1/players", { key }));
      await eventually(async () => (await Promise.all(gone())).every(({ status }) => status === 401), {
        timeoutMs: 7_000,
      });
      for (const client of arena.clients) {
        const seen = { externalUserId: "u1", eventType: "seen" };
        const { body } = await client.post("/api/v1/events?wait=true", seen, { key: other.tenant.key });
        assert.equal(body.status, "PROCESSED");
      }
    },
  },
];
/** What must hold when several want the same thing at the same time. */
export const races: readonly Race[] = [...definitions, ...accounts, ...players, ...deletions];

const quest = { key: "act", name: "Act", steps: [counting("do", "acted", 1)] };

const adventure = {
  key: "season",
  name: "Season",
  startsAt: "2026-01-01T00:00:00Z",
  endsAt: "2126-01-01T00:00:00Z",
  items: [{ questKey: "act", order: 1, points: 10 }],
  tiers: [{ tier: 1, points: 10, free: { xp: 7 }, premium: { currencies: { gems: 100 } } }],
  premiumPrice: { currencyKey: "gems", amount: 50 },
  claim: "MANUAL",
  rewards: { xp: 1_000 },
};

/** An answer that must be a success. */
export const done = (answer: Answer): Answer => {
  assert.ok(answer.status < 300, JSON.stringify(answer.body));
  return answer;
};

/** What must hold when several want the same of a player's adventure at the same time. */
export const adventureRaces: readonly Race[] = [
  {
    name: "gives the rewards of a tier and of an adventure, and sells premium, once among 30 who ask",
    run: async (arena) => {
      const { tenant } = await sideIn(arena);
      const { key } = tenant;
      const [first] = arena.clients;
      const post = async (path: string, body: object = {}) =>
        done(await first!.post(`/api/v1${path}`, body, { key })).body;
      await post("/currencies", { key: "gems", name: "Gems", initialBalance: 80 });
      await post("/quests", quest);
      await post("/quests/act/publish");
      await post("/adventures", adventure);
      await post("/adventures/season/publish");
      const { id } = await post("/players", { externalUserId: "racer" });
      await post("/events?wait=true", { externalUserId: "racer", eventType: "acted" });
      const path = `/api/v1/players/${id}/adventures/season`;
      const all = (what: string, body: object = {}) =>
        together(arena, 30, (client) => client.post(`${path}/${what}`, body, { key }));
      oneWins(await all("premium"), 200, "409 ALREADY_PREMIUM");
      oneWins(await all("tiers/1/claim", { track: "PREMIUM" }), 200, "409 ALREADY_CLAIMED");
      oneWins(await all("tiers/1/claim", { track: "FREE" }), 200, "409 ALREADY_CLAIMED");
      oneWins(await all("claim"), 200, "409 ALREADY_CLAIMED");
      const { body } = await first!.get(`/api/v1/players/${id}`, { key });
      assert.deepEqual([body.xp, body.currencies.gems], [1_007, 80 - 50 + 100]);
    },
  },
];

const COINS = { key: "coins", name: "Coins" };

/** A player with `amount` coins, and the path of the balance. */
const aBalance = async (side: Side, amount: number): Promise<{ player: string; coins: string }> => {
  await side.make("/currencies", COINS);
  const player = `/api/v1/players/${await side.player()}`;
  return { player, coins: await granted(side, `${player}/balances/coins`, amount) };
};

const granted = async (side: Side, coins: string, amount: number): Promise<string> => {
  must(await side.send("post", `${coins}/grant`, { amount }), 201);
  return coins;
};

export const economyRaces: readonly Race[] = [
  {
    name: "spends a balance for 10 exactly 10 times, however many want to",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const { player, coins } = await aBalance(side, 105);
      const answers = await together(arena, 50, (client) =>
        client.post(`${coins}/spend`, { amount: 10 }, { key }),
      );
      assert.deepEqual(tally(answers), { 201: 10, "409 INSUFFICIENT_FUNDS": 40 });
      const [balance] = must(await side.send("get", `${player}/balances`), 200).data;
      assert.deepEqual([balance.balance, balance.available, balance.lifetimeSpent], [5, 5, 100]);
      const verdict = must(await side.send("get", `${player}/ledger/verify`), 200);
      assert.deepEqual([verdict.valid, verdict.entries], [true, 11]);
    },
  },
  {
    name: "holds and spends no more than there is",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const { player, coins } = await aBalance(side, 50);
      const answers = await together(arena, 24, (client, i) =>
        i % 2 === 0
          ? client.post(`${coins}/spend`, { amount: 7 }, { key })
          : client.post(`${coins}/holds`, { amount: 7, expiresInSeconds: 600 }, { key }),
      );
      assert.deepEqual(tally(answers), { 201: 7, "409 INSUFFICIENT_FUNDS": 17 });
      const [balance] = must(await side.send("get", `${player}/balances`), 200).data;
      assert.equal(balance.available, 1);
    },
  },
  {
    name: "settles a hold once",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const { player, coins } = await aBalance(side, 10);
      const hold = { amount: 6, expiresInSeconds: 600 };
      const { id } = must(await side.send("post", `${coins}/holds`, hold), 201);
      const answers = await together(arena, 10, (client, i) =>
        client.post(`${player}/holds/${id}/${i % 2 === 0 ? "capture" : "release"}`, {}, { key }),
      );
      const won = answers.filter(({ status }) => status === 200);
      assert.deepEqual(tally(answers), { 200: 1, "409 INVALID_STATE": 9 });
      const [balance] = must(await side.send("get", `${player}/balances`), 200).data;
      const left = won[0]!.body.status === "CAPTURED" ? 4 : 10;
      assert.deepEqual([balance.balance, balance.held], [left, 0]);
    },
  },
  {
    name: "takes a reference for one of the grants, spendings and holds that use it",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      const { player, coins } = await aBalance(side, 100);
      const amount = { amount: 1, reference: "order-7" };
      const answers = await together(arena, 12, (client, i) => {
        if (i % 4 === 0) return client.post(`${coins}/grant`, amount, { key });
        if (i % 4 === 1) return client.post(`${coins}/spend`, amount, { key });
        if (i % 4 === 2) return client.post(`${player}/xp`, amount, { key });
        return client.post(`${coins}/holds`, { ...amount, expiresInSeconds: 60 }, { key });
      });
      oneWins(answers, 201, "409 REFERENCE_USED");
    },
  },
  {
    name: "takes five lives of five",
    run: async (arena) => {
      const side = await sideIn(arena);
      const { key } = side.tenant;
      await side.set({ lives: { enabled: true } });
      const path = `/api/v1/players/${await side.player()}/lives`;
      const answers = await together(arena, 12, (client) => client.post(`${path}/consume`, {}, { key }));
      assert.deepEqual(tally(answers), { 200: 5, "409 INSUFFICIENT_LIVES": 7 });
      assert.equal(must(await side.send("get", path), 200).current, 0);
    },
  },
];
